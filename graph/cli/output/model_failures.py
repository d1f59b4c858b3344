"""What went wrong with a model, in one line that says what to do."""

from collections.abc import Mapping

from langgraph_compaction.checkpoint import CheckpointError
from langgraph_compaction.nodes import CompactionError
from langgraph_compaction.nodes.providers.overflow import classify
from langgraph_compaction.nodes.providers.provider_error import status_of, text_of

_LONGEST = 200

_BY_STATUS: Mapping[int, str] = {
    401: "the provider refused the key: check OPENAI_API_KEY",
    403: "the provider refuses this key the model: check OPENAI_API_KEY and OPENAI_MODEL",
    404: "the provider knows no such model or address: check OPENAI_MODEL and OPENAI_BASE_URL",
    429: "the provider's rate limit or quota is reached: wait a little",
}


def explained(error: Exception) -> str:
    """The error as one line."""
    if isinstance(error, CompactionError | CheckpointError):
        return _line(str(error))
    status, said = status_of(error), _said(error)
    if advice := _BY_STATUS.get(status or 0):
        return f"{advice} ({status}: {said})"
    if status is None and classify(error) == "transient":
        return (
            f"the provider cannot be reached: check the network and OPENAI_BASE_URL ({type(error).__name__}: {said})"
        )
    return f"the model failed ({status or type(error).__name__}: {said})"


def _said(error: Exception) -> str:
    """The provider's own words, once; without the fields beside its message."""
    lines = list(dict.fromkeys(text_of(error).splitlines()))
    messages = [line.removeprefix("message: ") for line in lines if line.startswith("message: ")]
    return _line(" ".join(messages or lines))


def _line(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= _LONGEST else f"{line[:_LONGEST]} …"
