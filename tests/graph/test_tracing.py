"""Spans and metrics of OpenTelemetry: one tree under the caller's span, and no text of the conversation in it."""

import asyncio
import contextvars
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, cast
from uuid import UUID

import pytest
from langchain_core.callbacks import BaseCallbackHandler
from langchain_core.env import get_runtime_environment
from langchain_core.runnables.config import var_child_runnable_config
from langchain_core.tracers.langchain import LangChainTracer
from langgraph.types import Command
from opentelemetry import trace
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from langgraph_compaction.checkpoint import AsyncSQLAlchemySaver, SQLAlchemySaver, telemetry
from langgraph_compaction.graph import ThreadBusyError
from langgraph_compaction.graph.exclusive_runs import turn
from langgraph_compaction.nodes import Reply
from langgraph_compaction.nodes.ahead import prepare, use_prepared
from langgraph_compaction.nodes.testing import ScriptedModel, usage
from tests.fakes import ReplyingSummarizer, StalledSummarizer
from tests.graph import harness
from tests.graph.harness import CONFIG, NEAR, SUMMARY, Drive, calm, ended, full, said, verdicts
from tests.graph.middleware import agents
from tests.graph.test_prepared import BEYOND

get_runtime_environment()  # LangChain asks the system once, which would block the event loop of the first test

BUILDS = {"ours": harness.agent, "langchain": agents.agent}
SECRET = "sk-secret"  # noqa: S105 - what an exception might quote


class Recorded:
    """What was recorded while a test ran."""

    def __init__(self) -> None:
        self.exporter, self.reader = InMemorySpanExporter(), InMemoryMetricReader()
        provider = TracerProvider()
        provider.add_span_processor(SimpleSpanProcessor(self.exporter))
        self.tracer = provider.get_tracer("test")
        self.meter = MeterProvider([self.reader]).get_meter("test")

    @property
    def spans(self) -> list[ReadableSpan]:
        """All that ended, in the order of their beginnings."""
        return sorted(self.exporter.get_finished_spans(), key=lambda one: one.start_time or 0)

    def named(self, name: str) -> list[ReadableSpan]:
        """Those with this name."""
        return [one for one in self.spans if one.name == name]

    def path(self, span: ReadableSpan) -> list[str]:
        """Names from the root down to this one."""
        above = {one.context.span_id: one for one in self.spans}
        found = [span.name]
        while span.parent is not None:
            span = above[span.parent.span_id]
            found.insert(0, span.name)
        return found

    def points(self, name: str) -> list[Any]:
        """The points of a metric, after `langgraph_compaction.`."""
        data = self.reader.get_metrics_data()
        metrics = [m for r in (data.resource_metrics if data else ()) for s in r.scope_metrics for m in s.metrics]
        return [p for m in metrics if m.name == f"{telemetry.SCOPE}.{name}" for p in m.data.data_points]


@pytest.fixture
def recorded(monkeypatch: pytest.MonkeyPatch) -> Recorded:
    """Record in memory."""
    recorded = Recorded()
    meter = recorded.meter
    monkeypatch.setattr(telemetry, "_TRACER", recorded.tracer)
    monkeypatch.setattr(telemetry, "_ATTEMPTS", meter.create_counter(f"{telemetry.SCOPE}.compactions"))
    monkeypatch.setattr(telemetry, "_HISTOGRAMS", telemetry.made_histograms(meter))
    return recorded


@pytest.fixture(params=BUILDS)
def build(request: pytest.FixtureRequest) -> Any:
    """Build an agent, ours or LangChain's."""
    return BUILDS[request.param]


class Traced(ScriptedModel):
    """A model whose calls are spans, as an instrumented client's are."""

    tracer_: Any = None

    def _generate(self, *args: Any, **options: Any) -> Any:
        with self.tracer_.start_as_current_span("chat"):
            return super()._generate(*args, **options)


def summarizing(recorded: Recorded) -> Traced:
    """A summarizer that is traced and tells its usage."""
    reply = harness.AIMessage(SUMMARY, response_metadata={"model_name": "writer-2"})
    return Traced(replies=[usage(reply, 700, 9)], tracer_=recorded.tracer)


@contextmanager
def request_of(recorded: Recorded) -> Iterator[None]:
    """The span of an application's request."""
    with recorded.tracer.start_as_current_span("request"):
        yield


async def test_a_compacting_turn_is_one_tree(go: Drive, build: Any, recorded: Recorded) -> None:
    """Check, choice, summary, the model's own span and the commit stand under the caller's span."""
    graph = build(calm(), summarizing(recorded))
    with request_of(recorded):
        await go.invoke(graph, full())
    assert len({one.context.trace_id for one in recorded.spans}) == 1
    assert verdicts(graph) == ["committed"]
    nodes = [one.name for one in recorded.spans if one.name.startswith("compaction.")]
    assert nodes == [
        "compaction.token_check",
        "compaction.selective_compaction",
        "compaction.summarize",
        "compaction.summary",
        "compaction.commit",
        "compaction.model",
    ]
    (chat,) = recorded.named("chat")
    assert recorded.path(chat) == ["request", "compaction.summarize", "compaction.summary", "chat"]
    assert recorded.path(recorded.named("records.commit")[0])[-2:] == ["compaction.commit", "records.commit"]
    (checked,) = recorded.named("compaction.token_check")
    assert dict(checked.attributes or {}) == {
        "gen_ai.conversation.id": harness.THREAD,
        "compaction.tokens": 870,
        "compaction.threshold": 800,
        "compaction.limit": 1000,
        "compaction.trigger": "precheck",
        "compaction.next_step": "selective_compaction",
    }
    (committed,) = recorded.named("compaction.commit")
    told = dict(committed.attributes or {})
    assert (told["compaction.verdict"], told["gen_ai.conversation.compacted"]) == ("committed", True)
    (summary,) = recorded.named("compaction.summary")
    assert dict(summary.attributes or {}) == {
        "compaction.summarizer": "model",
        "compaction.summary_calls": 1,
        "gen_ai.response.model": "writer-2",
        "gen_ai.usage.input_tokens": 700,
        "gen_ai.usage.output_tokens": 9,
    }
    shown = str([(one.attributes, one.events, one.status.description) for one in recorded.spans])
    assert not any(words in shown for words in ("what was said", "ru0-0", "and now"))


async def test_a_run_without_a_thread_names_none_in_its_spans(
    go: Drive, recorded: Recorded, caplog: pytest.LogCaptureFixture
) -> None:
    """The spans omit the thread id, because OpenTelemetry logs a warning for an attribute without a value."""
    graph = harness.agent(calm(), checkpointer=None, database="memory")
    await go.invoke(graph, said("hello"), {"configurable": {}})
    found = {one.name: dict(one.attributes or {}) for one in recorded.spans}
    sizes = {"compaction.tokens": 5, "compaction.threshold": 800, "compaction.limit": 1_000}
    spent = {"gen_ai.usage.input_tokens": 100, "gen_ai.usage.output_tokens": 10}
    assert found == {
        "compaction.token_check": {**sizes, "compaction.next_step": "model"},
        "compaction.model": {**sizes, "compaction.tokens": 110, "compaction.next_step": "end", **spent},
    }
    assert caplog.messages == []


async def test_a_preparation_stands_below_the_turn_that_began_it(go: Drive, build: Any, recorded: Recorded) -> None:
    """It has the caller's trace, although it ends after the turn, and a span of its own below the node."""
    with request_of(recorded):
        await go.invoke(build(ScriptedModel(), summarizing(recorded), summary_ahead=True), NEAR)
        await ended()
    assert len({one.context.trace_id for one in recorded.spans}) == 1
    (chat,) = recorded.named("chat")
    above = ["request", "compaction.model", "compaction.prepare", "compaction.summary", "chat"]
    assert recorded.path(chat) == above
    (prepared,) = recorded.named("compaction.prepare")
    assert dict(prepared.attributes or {}) == {"gen_ai.conversation.id": harness.THREAD}


async def test_metrics_of_a_compaction(go: Drive, build: Any, recorded: Recorded) -> None:
    """The verdict, its time, the tokens saved, the summary's time and tokens."""
    graph = build(calm(), summarizing(recorded))
    await go.invoke(graph, full())
    (attempt,) = recorded.points("compactions")
    assert (attempt.value, attempt.attributes["verdict"]) == (1, "committed")
    assert [point.count for point in recorded.points("compaction.duration")] == [1]
    (saved,) = recorded.points("compaction.tokens_saved")
    assert 0 < saved.sum < 870
    tokens = {point.attributes["gen_ai.token.type"]: point.sum for point in recorded.points("summary.tokens")}
    assert tokens == {"input": 700, "output": 9}
    assert [point.attributes["summarizer"] for point in recorded.points("summary.duration")] == ["model"]


async def test_a_run_that_waits_for_another_one_is_measured(go: Drive, recorded: Recorded) -> None:
    """Whether it got its turn in the end, too."""
    graph = harness.agent(calm())
    with turn(graph, CONFIG), pytest.raises(ThreadBusyError):
        await go.invoke(graph.with_config(configurable={"turn_wait_s": 0.0}), said("now"))
    await go.invoke(graph, said("later"))
    assert {point.attributes["taken"]: point.count for point in recorded.points("run.wait")} == {False: 1, True: 2}


@pytest.mark.parametrize("ready", [True, False])
async def test_the_wait_for_a_summary_that_is_being_prepared_is_measured(
    go: Drive, recorded: Recorded, monkeypatch: pytest.MonkeyPatch, *, ready: bool
) -> None:
    """Whether the summary was there in the end, too."""
    stalled, awaited = StalledSummarizer(), use_prepared._awaited

    def joined(*given: Any) -> Any:
        stalled.let_go.set()  # the turn waits
        return awaited(*given)

    monkeypatch.setattr(use_prepared, "_awaited", joined)
    if not ready:
        stalled.reply = RuntimeError("down")
    graph = harness.agent(ScriptedModel(), stalled, summary_ahead=True)
    await go.invoke(graph, NEAR)
    await asyncio.to_thread(stalled.entered.wait, 60)
    try:
        await go.invoke(graph, BEYOND)
    finally:
        stalled.let_go.set()
        await ended()
    points = recorded.points("preparation.wait")
    assert [(point.count, point.attributes["ready"]) for point in points] == [(1, ready)]


async def test_a_failed_summary_is_an_error_without_its_message(go: Drive, build: Any, recorded: Recorded) -> None:
    """The span has the exception's class; the verdict stands in the rollback's span and in the metrics."""
    graph = build(calm(), ScriptedModel(replies=[ValueError(f"bad key {SECRET}")]))
    await go.invoke(graph, full())
    (failed,) = recorded.named("compaction.summary")
    assert failed.status.status_code is trace.StatusCode.ERROR
    assert dict(failed.attributes or {}) == {
        "compaction.summarizer": "model",
        "compaction.summary_calls": 3,
        "error.type": "ValueError",
    }
    (rolled_back,) = recorded.named("compaction.rollback")
    assert (rolled_back.attributes or {})["compaction.verdict"] == "failed_permanent"
    assert [point.attributes["verdict"] for point in recorded.points("compactions")] == ["failed_permanent"]
    assert recorded.points("compaction.tokens_saved") == []
    assert SECRET not in str([(one.attributes, one.events, one.status.description) for one in recorded.spans])


async def test_a_question_to_a_person_is_no_error(go: Drive, recorded: Recorded) -> None:
    """The interrupt ends the span of `confirm` without a status."""
    graph = harness.agent(calm(), require_confirmation=True, hooks=harness.BEFORE)
    await go.invoke(graph, full())
    await go.invoke(graph, Command(resume="approve"))
    assert verdicts(graph) == ["committed"]
    confirmed = recorded.named("compaction.confirm")
    assert len(confirmed) == 2
    assert {one.status.status_code for one in confirmed} == {trace.StatusCode.UNSET}


async def test_calls_of_the_saver_stand_under_the_callers_span(
    go: Drive, build: Any, recorded: Recorded, tmp_path: Path
) -> None:
    """Each read and write of a checkpoint, also on a worker thread, whose waits are measured."""
    url, given = f"sqlite:///{tmp_path}/a.db", full()
    if isinstance(go, harness.Asynchronous):
        async with AsyncSQLAlchemySaver.from_url(url) as saver:
            await saver.setup()
            graph = build(calm(), checkpointer=saver)
            with request_of(recorded):
                await go.invoke(graph, given)
        assert sum(point.count for point in recorded.points("database.wait")) > 3
    else:
        with SQLAlchemySaver.from_url(url) as sync_saver:
            sync_saver.setup()
            with request_of(recorded):
                await go.invoke(build(calm(), checkpointer=sync_saver), given)
    calls = {one.name: one for one in recorded.spans if one.name.startswith("checkpoint.")}
    assert {"checkpoint.get", "checkpoint.put", "checkpoint.put_writes"} <= calls.keys()
    assert all(recorded.path(one)[0] == "request" for one in calls.values())
    timed = {point.attributes["operation"] for point in recorded.points("database.duration")}
    assert {*calls, "records.begin", "records.commit"} <= timed


CREDENTIAL: contextvars.ContextVar[str] = contextvars.ContextVar("credential", default="none")


class Looking(ReplyingSummarizer):
    """A summarizer that records the context variables and the run that each call sees."""

    def __init__(self) -> None:
        super().__init__(Reply(content=SUMMARY))
        self.seen: list[Any] = []
        self.max_input_tokens = 2_667

    def summarize(self, request: Any) -> Any:
        """Record them, and change a context variable."""
        config = var_child_runnable_config.get() or {}
        self.seen.append((CREDENTIAL.get(), config.get("configurable")))
        CREDENTIAL.set("changed")
        return super().summarize(request)


class LookingOnLoop(Looking):
    """One that is only asynchronous."""

    def summarize(self, request: Any) -> Any:
        """Refuse."""
        raise NotImplementedError

    async def asummarize(self, request: Any) -> Any:
        """Record them on the loop."""
        return super().summarize(request)


@pytest.mark.parametrize("given", [full(), NEAR], ids=["in_turn", "ahead"])
async def test_a_summarizer_has_the_callers_context_variables(go: Drive, build: Any, given: Any) -> None:
    """Credentials in one reach it, what it sets stays its own, and the run's thread and checkpointer stay outside."""
    looking = Looking()
    token = CREDENTIAL.set("tenant-7")
    try:
        await go.invoke(build(ScriptedModel(), looking, summary_ahead=True), given)
        await ended()
        assert CREDENTIAL.get() == "tenant-7"
    finally:
        CREDENTIAL.reset(token)
    assert looking.seen == [("tenant-7", None)]


async def test_an_asynchronous_summarizer_has_them_when_it_prepares() -> None:
    """On the loop of the run, in a task with a copy of the turn's context."""
    looking = LookingOnLoop()
    token = CREDENTIAL.set("tenant-7")
    try:
        await harness.agent(ScriptedModel(), looking, summary_ahead=True).ainvoke(NEAR, CONFIG)
        await ended()
    finally:
        CREDENTIAL.reset(token)
    assert looking.seen == [("tenant-7", None)]


async def test_a_stalled_summarizer_has_a_span_that_ends(go: Drive, recorded: Recorded) -> None:
    """With the time-out's class, while the abandoned call may still be running."""
    stalled = StalledSummarizer()
    graph = harness.agent(calm(), stalled, summary_timeout_s=0.05)
    try:
        await go.invoke(graph, full())
    finally:
        stalled.let_go.set()
    (summary,) = recorded.named("compaction.summary")
    assert (summary.attributes or {})["error.type"] == "SummaryTimeoutError"


class Runs(BaseCallbackHandler):
    """Notes the names and parents of runs, as a tracer does."""

    def __init__(self) -> None:
        self.names: dict[UUID, str] = {}
        self.parents: dict[UUID, UUID | None] = {}

    def on_chain_start(
        self, _serialized: Any, _inputs: Any, *, run_id: UUID, parent_run_id: Any = None, **options: Any
    ) -> None:
        """Note a node."""
        self._note(run_id, parent_run_id, options)

    def on_chat_model_start(
        self, _serialized: Any, _messages: Any, *, run_id: UUID, parent_run_id: Any = None, **options: Any
    ) -> None:
        """Note a model's call."""
        self._note(run_id, parent_run_id, options)

    def _note(self, run: UUID, parent: UUID | None, options: dict[str, Any]) -> None:
        self.names[run], self.parents[run] = str(options.get("name")), parent

    def above(self, name: str) -> list[str]:
        """The names above the only run with this name."""
        (run,) = [run for run, known in self.names.items() if known == name]
        found = []
        while (parent := self.parents[run]) is not None:
            run = parent
            found.append(self.names[run])
        return found


async def test_a_tracer_sees_the_summarizer_under_its_node(go: Drive, build: Any) -> None:
    """As in LangSmith's tree: the call stands below the node that made it, in LangChain's agent inside its own."""
    runs = Runs()
    graph = build(calm())
    await go.invoke(graph, full(), {**CONFIG, "callbacks": [runs]})
    node = [] if build is harness.agent else ["model"]
    assert runs.above("compaction_summary")[:-1] == ["summarize", *node]
    assert runs.above("commit")[:-1] == node


class Uploads:
    """A client of LangSmith that keeps what would be sent."""

    def __init__(self) -> None:
        self.created: list[dict[str, Any]] = []
        self.ended: list[str] = []
        self.otel_exporter = self.tracing_queue = None

    def create_run(self, **run: Any) -> None:
        """Keep a run that begins."""
        self.created.append(run)

    def update_run(self, **run: Any) -> None:
        """Keep a run that ends."""
        self.ended.append(str(run.get("name")))


async def test_a_preparation_reaches_tracers_alone_of_the_callbacks(
    go: Drive, build: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """LangSmith's tracer puts the call below the node, even after the run; no other handler is called late."""
    uploads, runs, gate, prepared = Uploads(), Runs(), threading.Event(), prepare._prepared

    def late(*given: Any) -> Any:
        gate.wait(60)
        return (yield from prepared(*given))

    monkeypatch.setattr(prepare, "_prepared", late)
    graph = build(ScriptedModel(), summary_ahead=True)
    tracer = LangChainTracer(client=cast("Any", uploads))
    try:
        await go.invoke(graph, NEAR, {**CONFIG, "callbacks": [tracer, runs]})
        known = len(runs.names)
        named = {run["name"]: run for run in uploads.created}
        assert "compaction_summary" not in named
    finally:
        gate.set()
    await ended()
    (call,) = [run for run in uploads.created if run["name"] == "compaction_summary"]
    assert call["trace_id"] == named["model"]["trace_id"]
    assert call["parent_run_id"] == named["model"]["id"]
    assert len(runs.names) == known


@pytest.mark.parametrize(("name", "lower", "higher"), [("database.duration", 0.004, 0.2), ("run.wait", 0.2, 20)])
def test_buckets_tell_usual_times_apart(recorded: Recorded, name: str, lower: float, higher: float) -> None:
    """In an application that sets no bounds of its own."""
    for value in (lower, higher):
        telemetry.record(name, value)
    (point,) = recorded.points(name)
    assert max(point.bucket_counts) == 1


@pytest.mark.parametrize("found", ["None", "types.ModuleType('opentelemetry')"], ids=["no package", "an empty one"])
def test_without_the_api_of_opentelemetry_nothing_is_recorded(found: str) -> None:
    """Without the extra `otel`, another package can have left a folder `opentelemetry` with nothing in it."""
    code = (
        f"import sys, types; sys.modules['opentelemetry'] = {found}\n"
        "from langgraph_compaction.checkpoint import telemetry\n"
        "with telemetry.span('a turn'): assert telemetry.trace is None"
    )
    done = subprocess.run([sys.executable, "-c", code], check=False, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
