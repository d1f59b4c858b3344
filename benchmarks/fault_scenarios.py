"""The scenarios of the fault comparison: the fault, the conversation in which it occurs, and the host's reaction.

F with a number in a scenario's name is the kind of failure, each seen in a system in use. Failures that a chat model
cannot show are left out: killed processes, database errors, a missing tokenizer.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from fault_histories import (
    FACTS,
    RULES,
    blocks,
    chat,
    interrupted,
    planted,
    prose,
    result,
    schema,
    unanswered,
)
from fault_writers import (
    BAD_FORMS,
    BAD_KEY,
    GOES_ON,
    GOES_ON_IN_TAGS,
    RATE_LIMIT,
    SERVER_ERROR,
    Writer,
    always,
    copies,
    echoes,
    fails,
    of_size,
)
from langchain_core.exceptions import ModelRateLimitError
from langchain_core.messages import AnyMessage, HumanMessage, SystemMessage

WINDOW = 64_000
"""The models' context window, in tokens: compactions are due at 51,200, in deepagents at 54,400 with tools."""


@dataclass(frozen=True)
class NodeContext:
    """One question of the user, and the events while it is answered."""

    reads: tuple[str, ...] = ()
    """Documents that the model reads, in parallel, before it answers."""
    asks_approval: bool = False
    """Whether the turn also waits for a person's approval."""
    error: Exception | None = None
    """The exception of the model's first call; the host then resumes the run."""
    deletes: bool = False
    """Whether the user deletes the oldest of their messages first."""
    size: int = 40
    """Tokens of the question."""


@dataclass(frozen=True, kw_only=True)
class Scenario:
    """A conversation that is adopted with the first question, and the questions that follow."""

    name: str
    history: Sequence[AnyMessage] = field(default_factory=lambda: chat(40, 660))
    facts: Sequence[str] = FACTS
    """The facts that the last request should still hold."""
    copied: Sequence[str] = FACTS
    """The facts that the summarizer copies if it is shown them."""
    writer: Writer = copies
    turns: Sequence[NodeContext] = (NodeContext(),) * 5
    documents: Mapping[str, str] = field(default_factory=dict[str, str])
    window: int = WINDOW
    """Tokens that the provider accepts."""
    advertised: int | None = WINDOW
    """The context window that the model's profile reports; `None` for no profile."""
    has_braces: bool = False
    """Whether the host sets its own summary prompt, with braces in it."""
    is_streamed: bool = False
    """Whether the host shows the streamed messages."""


READS = NodeContext(reads=tuple("abcdef"))
HUGE = " ".join(f"Note that {fact}. {prose(30_000, fact)}" for fact in FACTS[:3])
"""A text of 90,000 tokens with a fact at the beginning and after each third."""
OVERLOAD = ModelRateLimitError(
    "Error code: 429 - Request too large for model on tokens per min (TPM): Limit 60000, Requested 61210. The input "
    "or output tokens must be reduced in order to run successfully; see the maximum context length."
)


def _papers(tokens: int) -> dict[str, str]:
    return {name: f"Note that {fact}. {prose(tokens, name)}" for name, fact in zip("abcdef", FACTS, strict=False)}


def _with_rules() -> list[AnyMessage]:
    return planted(planted(chat(40, 660), HumanMessage(RULES[0]), 10), HumanMessage(RULES[1]), 25)


SCENARIOS = (
    Scenario(name="nothing fails"),
    Scenario(
        name="nothing fails: 60 turns, each reads 3,000 tokens (F12)",
        history=chat(8, 100, until=1),
        turns=(NodeContext(reads=("long",)),) * 60,
        documents={"long": prose(3_000, "long")},
    ),
    Scenario(name="the summarizer raises, every time (F1)", writer=fails(SERVER_ERROR)),
    Scenario(
        name="the same, the conversation already over the window (F1, F11)",
        history=chat(40, 900),
        writer=fails(SERVER_ERROR),
    ),
    *(Scenario(name=f"the summary is {form} (F2)", writer=writer) for form, writer in BAD_FORMS.items()),
    Scenario(name="the summary is longer than all it replaces (F3)", writer=of_size(70_000)),
    Scenario(name="the summary goes on with the chat (F4)", writer=always(GOES_ON)),
    Scenario(name="the same, in the form that was asked for (F4)", writer=always(GOES_ON_IN_TAGS)),
    Scenario(name="three windows of history at once (F5)", history=chat(120, 800)),
    Scenario(name="the last 20 messages are over the trigger (F6)", history=chat(12, 2_700)),
    Scenario(
        name="results not yet read are over the trigger (F6)",
        history=chat(4, 100, FACTS[6:], until=1),
        turns=(READS, *(NodeContext(),) * 4),
        documents=_papers(8_800),
    ),
    Scenario(
        name="one result is larger than the window (F7)",
        history=chat(8, 100, FACTS[3:], until=1),
        turns=(NodeContext(reads=("huge",)), *(NodeContext(),) * 4),
        documents={"huge": HUGE},
    ),
    Scenario(
        name="one question is larger than the window (F7)",
        turns=(NodeContext(), NodeContext(size=90_000), *(NodeContext(),) * 3),
    ),
    Scenario(name="parallel calls only, ids used again (F8)", history=blocks(20, 660)),
    Scenario(name="the user speaks between two results (F8)", history=[*chat(40, 660), *interrupted()]),
    Scenario(name="a call that was never answered (F8)", history=[*chat(40, 660), *unanswered()]),
    Scenario(name="a result whose call is gone (F8)", history=[*chat(40, 660), result(990, "late")]),
    Scenario(
        name="two compactions, one upon the other (F8)",
        turns=(*(NodeContext(size=9_000),) * 6, *(NodeContext(),) * 2),
    ),
    Scenario(
        name="the model fails after the compaction; resumed (F9)",
        turns=(NodeContext(error=SERVER_ERROR), *(NodeContext(),) * 4),
    ),
    Scenario(
        name="every summary is 40,000 tokens (F10)", writer=of_size(40_000), turns=(NodeContext(size=3_000),) * 8
    ),
    Scenario(name="every summary repeats its input (F25)", writer=echoes, turns=(NodeContext(size=3_000),) * 8),
    Scenario(
        name="the user deletes an old message after it (F15)",
        turns=(NodeContext(), *(NodeContext(deletes=True),) * 4),
        history=chat(40, 660, begin=0.8, until=1),
    ),
    Scenario(name="the summarizer answers 429 once (F16)", writer=fails(RATE_LIMIT, times=1)),
    Scenario(name="the summarizer answers 429 every time (F16)", writer=fails(RATE_LIMIT)),
    Scenario(name="the summarizer's key is wrong (F16)", writer=fails(BAD_KEY)),
    Scenario(
        name="the model's 429 speaks of context length (F16)",
        history=chat(20, 660),
        turns=(NodeContext(error=OVERLOAD), *(NodeContext(),) * 4),
    ),
    Scenario(name="the host shows what is streamed (F18)", is_streamed=True),
    Scenario(name="the window is not known (F20)", advertised=None, history=chat(60, 660)),
    Scenario(name="the window is smaller than the profile says (F20)", window=48_000, history=chat(38, 640)),
    Scenario(
        name="braces in the conversation (F21)", history=planted(chat(40, 660), HumanMessage(schema("read")), 6)
    ),
    Scenario(name="braces in a summary prompt of one's own (F21)", has_braces=True),
    Scenario(
        name="a person has to approve, at the cut (F23)",
        history=chat(20, 1_000),
        turns=(NodeContext(reads=("paper",), asks_approval=True), *(NodeContext(),) * 4),
        documents={"paper": prose(12_000, "paper")},
    ),
    Scenario(
        name="a system message stands inside the conversation (F24)",
        history=planted(planted(chat(40, 660), SystemMessage(RULES[0]), 10), SystemMessage(RULES[1]), 24),
        facts=RULES,
    ),
    Scenario(name="the user gave rules, the summarizer forgets them (F24)", history=_with_rules(), facts=RULES),
)
