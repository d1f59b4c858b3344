"""Spans and metrics of OpenTelemetry, through its API package alone (extra `otel`).

Without that package nothing is recorded, and with it nothing until the application installs an SDK. No span and no
metric holds text of a conversation or the message of an exception.
"""

from collections.abc import Callable, Generator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import wraps
from importlib.metadata import version
from time import perf_counter
from typing import TYPE_CHECKING, ParamSpec, TypeVar

from langgraph.errors import GraphBubbleUp

from .usage import Usage

if TYPE_CHECKING:
    from opentelemetry.metrics import Histogram, Meter

try:
    from opentelemetry import metrics, trace
except ImportError:  # no extra `otel`: there is no package, or one in which another has left nothing to import
    metrics = trace = None  # type: ignore[assignment] # each use asks first

_NO_SPAN = nullcontext()

P = ParamSpec("P")
T = TypeVar("T")
Value = str | bool | int | float
Attributes = Mapping[str, Value]

SCOPE = "langgraph_compaction"
"""Name of the instrumentation scope, and prefix of the metrics."""

HISTOGRAMS: Mapping[str, tuple[str, str]] = {
    "compaction.duration": ("s", "Time from an attempt's beginning to its verdict"),
    "compaction.tokens_saved": ("{token}", "Tokens by which a committed compaction made the request smaller"),
    "summary.duration": ("s", "Time of all calls of a summarizer for one request"),
    "summary.tokens": ("{token}", "Tokens that a summarizer reported for one request"),
    "preparation.wait": ("s", "Time that a turn over the limit waited for a summary that was being prepared"),
    "run.wait": ("s", "Time that a run waited for the other runs on its thread"),
    "database.duration": ("s", "Time of one call of the checkpointer or the records, with waits for locks"),
    "database.wait": ("s", "Time that an asynchronous call waited for a free worker thread"),
}
"""Unit and description of each histogram, by its name after `langgraph_compaction.`."""

BUCKETS: Mapping[str, tuple[float, ...]] = {
    "s": (0.001, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120),
    "{token}": (100, 300, 1_000, 3_000, 10_000, 30_000, 100_000, 300_000, 1_000_000),
}
"""Bounds of the buckets by unit, for an application that sets none: those of the SDK begin at five seconds."""


def made_histograms(meter: "Meter") -> dict[str, "Histogram"]:
    """Make `HISTOGRAMS` with a meter."""
    return {
        name: meter.create_histogram(
            f"{SCOPE}.{name}", unit, description, explicit_bucket_boundaries_advisory=BUCKETS[unit]
        )
        for name, (unit, description) in HISTOGRAMS.items()
    }


_TRACER = trace.get_tracer(SCOPE, version("langgraph-compaction")) if trace else None
_METER = metrics.get_meter(SCOPE, version("langgraph-compaction")) if metrics else None
_ATTEMPTS = (
    _METER.create_counter(f"{SCOPE}.compactions", "{compaction}", "Attempts that ended, by verdict")
    if _METER
    else None
)
_HISTOGRAMS = made_histograms(_METER) if _METER else {}


def span(name: str, attributes: Attributes | None = None) -> AbstractContextManager[None]:
    """Record a span under the caller's span; nothing without an SDK, whose absence costs a look only.

    An exception gives the span the status ERROR and the attribute `error.type`, the name of the exception's class. An
    interrupt of LangGraph is no error.
    """
    return _span(name, attributes) if _is_recording() else _NO_SPAN


def _is_recording() -> bool:
    """Whether the application has installed an SDK: until then, tracer and provider are the API's stand-ins."""
    if trace is None:
        return False
    return not isinstance(_TRACER, trace.ProxyTracer) or not isinstance(
        trace.get_tracer_provider(), trace.ProxyTracerProvider
    )


@contextmanager
def _span(name: str, attributes: Attributes | None) -> Generator[None]:
    if trace is None or _TRACER is None:
        yield
        return
    with _TRACER.start_as_current_span(
        name, attributes=attributes, record_exception=False, set_status_on_exception=False
    ) as opened:
        try:
            yield
        except GraphBubbleUp:
            raise
        except Exception as error:
            opened.set_attribute("error.type", type(error).__name__)
            opened.set_status(trace.StatusCode.ERROR)
            raise


def annotate(attributes: Mapping[str, Value | None]) -> None:
    """Add attributes to the current span, without those that are `None`."""
    if trace is not None and _is_recording():
        trace.get_current_span().set_attributes({key: one for key, one in attributes.items() if one is not None})


def annotate_usage(usage: Usage) -> None:
    """Add the tokens of a model's call to the current span, by the names of OpenTelemetry's conventions."""
    counts = {
        "input_tokens": usage.input_tokens,
        "cache_read.input_tokens": usage.cache_read_tokens,
        "cache_creation.input_tokens": usage.cache_write_tokens,
        "output_tokens": usage.output_tokens,
        "reasoning.output_tokens": usage.reasoning_tokens,
    }
    annotate({f"gen_ai.usage.{name}": count or None for name, count in counts.items()})


def count_attempt(attributes: Attributes) -> None:
    """Count one attempt that ended."""
    if _ATTEMPTS is not None:
        _ATTEMPTS.add(1, attributes)


def record(name: str, value: float, attributes: Attributes | None = None) -> None:
    """Record a value in one of `HISTOGRAMS`."""
    if _HISTOGRAMS:
        _HISTOGRAMS[name].record(value, attributes)


def database_call(name: str) -> Callable[[Callable[P, T]], Callable[P, T]]:
    """Make a span and a duration of each call of a function that uses the database."""

    def decorated(call: Callable[P, T]) -> Callable[P, T]:
        @wraps(call)
        def traced(*args: P.args, **options: P.kwargs) -> T:
            began = perf_counter()
            with span(name):
                try:
                    return call(*args, **options)
                finally:
                    record("database.duration", perf_counter() - began, {"operation": name})

        return traced if _TRACER is not None else call

    return decorated
