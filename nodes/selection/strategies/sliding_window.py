"""`sliding_window`: keep the newest messages and summarize the earlier ones."""

from collections.abc import Iterator, Sequence

from langchain_core.messages import AIMessage

from ...conversation.message_marks import is_summary, marks
from ..selector import Choice, Demand, Selector


def sliding_window(selector: Selector, demand: Demand) -> Iterator[Choice]:  # noqa: ARG001 - a strategy's form
    """Keep the newest `sliding_window_size` messages; yield nothing for a conversation of at most twice that size.

    The unanswered user message stays and is not counted, nor are commands to this package, which the model is not
    sent. The window therefore ends with an answer; one of an odd size also begins with an answer, so that the roles
    alternate from the summary on.
    A tool block at the edge of the window stays whole.
    """
    messages, size = selector.view.messages, selector.settings.sliding_window_size
    history = [index for index in selector.non_system if index != selector.view.pending_user]
    counted = [index for index in history if not marks(messages[index]).get("command")]
    if len(counted) > 2 * size:
        quota = selector.settings.sliding_window_quota
        newest = _by_author(selector, counted, size) if quota else frozenset(counted[-size:])
        yield Choice(drop=frozenset(history) - newest, summarize=True)


def _by_author(selector: Selector, history: Sequence[int], size: int) -> frozenset[int]:
    """Return the newest messages of the model and, separately, of all other authors: 5 and 4 for a size of 9.

    Earlier summaries are not kept, because the new summary absorbs them.
    """
    messages = selector.view.messages
    own = [index for index in history if isinstance(messages[index], AIMessage)]
    others = [i for i in history if not isinstance(messages[i], AIMessage) and not is_summary(messages[i])]
    few = size // 2
    return frozenset([*own[few - size :], *others[max(0, len(others) - few) :]])
