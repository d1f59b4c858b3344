"""`sliding_window`: the newest messages stay, the earlier ones become a summary."""

from collections.abc import Iterator

from langchain_core.messages import AIMessage

from ...conversation.message_marks import is_summary
from ..selector import Choice, Demand, Selector


def sliding_window(selector: Selector, demand: Demand) -> Iterator[Choice]:  # noqa: ARG001 - a strategy's form
    """Keep the newest `sliding_window_size`; none where there are not more than twice as many.

    Blocks at the edge stay whole, as every choice leaves them.
    """
    spoken, size = selector.spoken, selector.settings.sliding_window_size
    if len(spoken) > 2 * size:
        quota = selector.settings.sliding_window_quota
        newest = _by_author(selector, size) if quota else frozenset(spoken[-size:])
        yield Choice(drop=frozenset(spoken) - newest, summarize=True)


def _by_author(selector: Selector, size: int) -> frozenset[int]:
    """The newest of the model and of all others apart: of an odd number one more of the model's, so 5 and 4 of nine.

    An earlier summary is nobody's: it is absorbed.
    """
    messages = selector.view.messages
    own = [index for index in selector.spoken if isinstance(messages[index], AIMessage)]
    others = [i for i in selector.spoken if not isinstance(messages[i], AIMessage) and not is_summary(messages[i])]
    few = size // 2
    return frozenset([*own[few - size :], *others[max(0, len(others) - few) :]])
