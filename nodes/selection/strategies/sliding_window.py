"""`sliding_window`: keep the newest messages and summarize the earlier ones."""

from collections.abc import Iterator

from ...config.policies import ProgressivePolicy
from ...conversation.message_marks import marks
from ..selector import Choice, Demand, Selector


def sliding_window(selector: Selector, demand: Demand) -> Iterator[Choice]:  # noqa: ARG001 - a strategy's form
    """Keep the newest `sliding_window_size` messages; yield nothing for a conversation of at most twice that size.

    The unanswered user message stays and is not counted, nor are commands to this package, which the model is not
    sent. The window therefore ends with an answer; one of an odd size also begins with an answer, so that the roles
    alternate from the summary on.
    A tool block at the edge of the window stays whole.
    """
    messages, size = selector.view.messages, selector.settings.of(ProgressivePolicy).sliding_window_size
    history = [index for index in selector.non_system if index != selector.view.pending_user]
    counted = [index for index in history if not marks(messages[index]).get("command")]
    if len(counted) > 2 * size:
        yield Choice(drop=frozenset(history) - frozenset(counted[-size:]), summarize=True)
