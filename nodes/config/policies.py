"""The policies: a class for each system of the source documents, with the system's own settings as fields.

Class variables say how the document's system works; they are no settings.
"""

from collections.abc import Iterable, Mapping
from typing import Annotated, Any, ClassVar, Literal, cast, get_args

from pydantic import Field, NonNegativeInt, PositiveInt, field_validator

from .base_model import Frozen, nearest
from .prompts import InputGuard, PromptName
from .summary_format import SummaryForm
from .triggers import Hook

Preset = Literal[
    "selective",
    "typed_rules",
    "progressive",
    "progressive_chart",
    "progressive_pseudocode",
    "layered_defence",
    "recent_rounds",
    "reserve_tokens",
    "faithful",
]

PRESETS: tuple[Preset, ...] = get_args(Preset)
"""The names of all policies."""

SummaryMode = Literal["always", "if_needed", "last_resort"]
Action = Literal["drop", "truncate", "none"]
TaskType = Literal["code", "analysis", "conversation", "mixed", "unknown"]
ProgressiveStrategy = Literal["sliding_window", "importance", "key_events", "incremental"]

PRIORITIES: Mapping[str, int] = {
    "tool_result": 10,
    "skill_prompt": 20,
    "assistant_message": 30,
    "skill_metadata": 40,
    "user_message": 50,
    "developer_message": 60,
    "system_reminder": 70,
    "offload_placeholder": 75,
    "compaction_summary": 80,
    "skill_strategy": 90,
    "tool_strategy": 93,
    "mcp_tool": 94,
    "subagent_strategy": 95,
    "system_env": 100,
    "git_env": 100,
    "output_style": 100,
    "memory": 100,
    "agent_loop": 100,
    "system_prompt": 100,
}
"""Message types with their priorities; messages of the lowest priority are removed first. A message's `kind` mark
names its type."""


class TypeRule(Frozen):
    """What happens to the messages of one type."""

    action: Action
    keep_recent: NonNegativeInt = 0
    """Number of newest messages of the type that `truncate` keeps."""


TYPE_RULES: dict[str, TypeRule] = {
    "tool_result": TypeRule(action="truncate", keep_recent=3),
    "skill_prompt": TypeRule(action="drop"),
    "skill_metadata": TypeRule(action="drop"),
    "assistant_message": TypeRule(action="truncate", keep_recent=5),
    "user_message": TypeRule(action="truncate", keep_recent=5),
    "system_prompt": TypeRule(action="none"),
    "subagent_strategy": TypeRule(action="none"),
    "compaction_summary": TypeRule(action="none"),
}
"""The usual rule of each type; messages of a type without a rule stay."""


class AdaptiveOrders(Frozen):
    """For each type of task, the strategies in the order in which `adaptive` tries them."""

    code: tuple[ProgressiveStrategy, ...] = ("sliding_window", "key_events", "incremental")
    analysis: tuple[ProgressiveStrategy, ...] = ("sliding_window", "importance", "incremental")
    conversation: tuple[ProgressiveStrategy, ...] = ("sliding_window", "importance", "incremental")
    mixed: tuple[ProgressiveStrategy, ...] = ("sliding_window", "incremental", "importance")
    unknown: tuple[ProgressiveStrategy, ...] = ("sliding_window", "importance", "incremental")

    def of(self, task: TaskType) -> tuple[ProgressiveStrategy, ...]:
        """Return the strategies of one type of task."""
        order: tuple[ProgressiveStrategy, ...] = getattr(self, task)
        return order


def _strategies(*names: str) -> Any:
    return Field(
        default=names,
        min_length=1,
        title="Strategies",
        description="Strategies that choose the messages to remove, in the order in which they are tried. A name is "
        "that of a strategy of the package, or of one of the builder's `extensions`.",
    )


def _hooks(*names: Hook) -> Any:
    return Field(
        default=names,
        title="Hooks",
        description="When the triggers are checked: `pre_input` at a new user message, without counting it, "
        "`pre_model` before each call of the model, `post_model` after its answer, `on_overflow` after the provider "
        "refused a request as too long. A request over the limit is compacted before a call in any case.",
    )


class Policy(Frozen):
    """What all policies have."""

    strategies: tuple[str, ...] = ()
    hooks: tuple[Hook, ...] = _hooks("pre_model", "post_model", "on_overflow")

    prompt: ClassVar[PromptName] = "five_sections"
    """The prompt for a summary where the settings give none."""
    form: ClassVar[SummaryForm] = "record"
    """How the message that carries a summary begins and ends."""
    mode: ClassVar[SummaryMode] = "always"
    summarizer: ClassVar[Literal["model", "digest"]] = "model"
    """Who writes summaries where the application names nobody."""
    input_guard: ClassVar[InputGuard | None] = None
    tool_blocks_keep_unread: ClassVar[bool] = True
    """Whether results that the model has not read yet are shortened only where they do not fit."""
    soft_zone: ClassVar[bool] = True
    """Whether the trigger stays below the limit."""
    facts_beside_summary: ClassVar[bool] = True
    """Whether facts stand beside a model's summary."""
    facts_share: ClassVar[float] = 0.1
    """Share of the room for facts beside a summary."""
    next_after_failure: ClassVar[bool] = False
    """Whether a strategy whose summary failed is followed by the next one in the same turn."""

    @classmethod
    def shared(cls, own: Mapping[str, Any]) -> dict[str, Any]:  # noqa: ARG003 - a form that subclasses fill
        """Return the shared settings that the document sets, for these settings of the policy's own."""
        return {}


class Selective(Policy):
    """Drops old tool blocks, keeps 12 rounds, always summarizes the rest."""

    name: Literal["selective"] = "selective"
    strategies: tuple[str, ...] = _strategies("tool_blocks")

    tool_blocks_keep_recent: NonNegativeInt = Field(default=5, title="Tool blocks kept")
    """Number of the newest tool blocks that stay. A tool block is an assistant message with tool calls and the calls'
    results. Fewer stay if the request would not fit otherwise. Results that the model has not read yet stay
    too: whole if they fit, and else their beginnings and ends."""

    tool_call_threshold: PositiveInt = Field(default=500, title="Tokens from which a call is shortened")
    """Number of tokens above which the arguments of a kept call are shortened to `preview_tokens`."""

    tool_result_threshold: PositiveInt = Field(default=600, title="Tokens from which a result is shortened")
    """Number of tokens above which a kept result is shortened to `preview_tokens`."""

    preview_tokens: PositiveInt = Field(default=200, title="Tokens that stay of what is shortened")
    """Number of tokens that stay of a shortened call or result."""

    dialogue_rounds_keep_min: NonNegativeInt = Field(default=12, title="Rounds kept")
    """The user messages, and the assistant messages without tool calls, of this number of the newest rounds stay. A
    round is a user message and all messages up to the next user message. Fewer rounds stay if the request would not
    fit otherwise, or if the next turn would compact again."""

    dialogue_beyond_keep: NonNegativeInt = Field(default=5, title="Messages kept beyond the rounds")
    """Of the messages before the kept rounds, this number of the newest user messages and the same number of the
    newest assistant messages stay."""

    summary_mode: SummaryMode = Field(default="always", title="When a summary is written")
    """`always`: in every compaction that removes messages. `if_needed`: only if the request is still larger than the
    target. `last_resort`: only if no strategy makes enough room; the summary then replaces the whole conversation."""


class TypedRules(Policy):
    """A rule for each type of message; a summary only where that is not enough."""

    name: Literal["typed_rules"] = "typed_rules"
    strategies: tuple[str, ...] = _strategies("typed_rules")
    hooks: tuple[Hook, ...] = _hooks("post_model", "on_overflow")
    mode: ClassVar[SummaryMode] = "last_resort"
    facts_beside_summary: ClassVar[bool] = False

    type_rules: dict[str, TypeRule] = Field(default=TYPE_RULES, title="Rule of each message type")
    """What happens to each type of message. A rule given here replaces the usual rule of its type; all other types
    keep theirs."""

    @field_validator("type_rules")
    @classmethod
    def _with_usual_rules(cls, given: dict[str, TypeRule]) -> dict[str, TypeRule]:
        """Return the given rules and the usual ones of all other types; an error suggests the nearest type."""
        for kind in given:
            if kind not in PRIORITIES:
                raise ValueError(f"there is no type {kind!r} of message; {nearest(kind, PRIORITIES)}")
        return {**TYPE_RULES, **given}


class ProgressivePolicy(Policy):
    """What the three progressive policies have."""

    hooks: tuple[Hook, ...] = _hooks("pre_model", "on_overflow")
    prompt: ClassVar[PromptName] = "four_points"
    mode: ClassVar[SummaryMode] = "last_resort"
    facts_beside_summary: ClassVar[bool] = False
    next_after_failure: ClassVar[bool] = True
    adaptive_then: ClassVar[tuple[ProgressiveStrategy, ...]] = (
        "sliding_window",
        "importance",
        "key_events",
        "incremental",
    )
    """Strategies tried after `adaptive` if the one that it applied does not make enough room."""

    sliding_window_size: PositiveInt = Field(default=9, title="Messages kept by sliding_window")
    """Number of the newest messages that the strategy `sliding_window` keeps, tool blocks whole. It removes messages
    only if the conversation has more than twice this number."""

    importance_score_threshold: float = Field(default=3.0, ge=0, le=10, title="Score kept by importance")
    """The strategy `importance` scores each message from 0 to 10, and keeps those with at least this score."""

    incremental_summary_chunk_size: PositiveInt = Field(default=20, title="Turns of a chunk of incremental")
    """Number of turns in each chunk of the strategy `incremental`. The newest chunk stays; every other one gets a
    summary of its own. A conversation of at most two chunks is left alone."""

    conversation_turn_threshold: PositiveInt = Field(default=200, title="Calls of the model before a full summary")
    """After this number of calls of the model since the last compaction, the whole conversation is summarized. It is
    not used where `triggers` is given."""

    adaptive_task_type: TaskType | None = Field(default=None, title="Type of task")
    """The type of task that the agent works on. `None`: it is derived from the agent's tool calls and messages."""

    adaptive_orders: AdaptiveOrders = Field(default=AdaptiveOrders(), title="Strategies for each type of task")
    """For each type of task, the strategies that `adaptive` tries in this order, until one can remove messages."""

    @classmethod
    def shared(cls, own: Mapping[str, Any]) -> dict[str, Any]:
        """Return the four triggers of the document, and the key information that it always keeps."""
        limit = own.get("conversation_turn_threshold", 200)
        return {
            "trigger_ratio": None,
            "triggers": (
                {"kind": "remaining_ratio", "ratio": 0.25},
                {"kind": "count", "unit": "model_calls", "limit": limit, "full": True},
                {"kind": "marker"},
                {"kind": "command", "full": True},
            ),
            "key_information": ("goal", "pins", "memories", "tasks", "git_diff"),
        }


class Progressive(ProgressivePolicy):
    """Strategies in turn by the kind of task, lightest first; a full summary last."""

    name: Literal["progressive"] = "progressive"
    strategies: tuple[str, ...] = _strategies("adaptive", "sliding_window", "importance", "key_events", "incremental")


class ProgressiveChart(ProgressivePolicy):
    """As progressive, with other orders for each kind of task."""

    name: Literal["progressive_chart"] = "progressive_chart"
    strategies: tuple[str, ...] = _strategies("adaptive", "importance", "key_events", "incremental", "sliding_window")
    adaptive_then: ClassVar[tuple[ProgressiveStrategy, ...]] = ()

    adaptive_orders: AdaptiveOrders = Field(
        default=AdaptiveOrders(code=("key_events",), analysis=("importance",), conversation=("sliding_window",)),
        title="Strategies for each type of task",
    )
    """For each type of task, the strategies that `adaptive` tries in this order, until one can remove messages."""


class ProgressivePseudocode(ProgressivePolicy):
    """As progressive, with the sliding window last."""

    name: Literal["progressive_pseudocode"] = "progressive_pseudocode"
    strategies: tuple[str, ...] = _strategies("adaptive", "importance", "key_events", "incremental", "sliding_window")
    adaptive_then: ClassVar[tuple[ProgressiveStrategy, ...]] = ("importance", "sliding_window")


class LayeredDefence(Policy):
    """Summarizes everything, in three layers of defence."""

    name: Literal["layered_defence"] = "layered_defence"
    strategies: tuple[str, ...] = _strategies("full")
    hooks: tuple[Hook, ...] = _hooks("pre_input", "pre_model", "on_overflow")
    prompt: ClassVar[PromptName] = "continuity"
    form: ClassVar[SummaryForm] = "cleared"
    input_guard: ClassVar[InputGuard | None] = InputGuard()
    facts_beside_summary: ClassVar[bool] = False

    @classmethod
    def shared(cls, own: Mapping[str, Any]) -> dict[str, Any]:  # noqa: ARG003 - it has no settings of its own
        """Return the two triggers of the document, and that the stored list stays short."""
        return {
            "trigger_ratio": None,
            "triggers": (
                {"kind": "used_ratio", "ratio": 0.9, "operator": ">"},
                {"kind": "count", "unit": "events", "limit": 700, "operator": ">"},
            ),
            "messages_in_state": 0,
        }


class RecentRounds(Policy):
    """Keeps the newest rounds, summarizes the rest, and asks before."""

    name: Literal["recent_rounds"] = "recent_rounds"
    strategies: tuple[str, ...] = _strategies("recent_rounds")
    hooks: tuple[Hook, ...] = _hooks("pre_input", "on_overflow")
    prompt: ClassVar[PromptName] = "brief"
    facts_beside_summary: ClassVar[bool] = False

    keep_recent_rounds: NonNegativeInt = Field(default=2, title="Rounds kept")
    """Number of the newest rounds that stay whole; fewer if this number does not fit. A round is a user message and
    all messages up to the next user message."""

    summary_max_length: PositiveInt | None = Field(default=1_000, title="Most characters of a summary")
    """Maximum length of a summary in characters; a longer one is cut at the end of a line or sentence. `None`: no
    maximum."""

    @classmethod
    def shared(cls, own: Mapping[str, Any]) -> dict[str, Any]:  # noqa: ARG003 - the same whatever is given
        """Return the window, and that a person is asked."""
        return {"context_window": 80_000, "require_confirmation": True}


class ReserveTokens(Policy):
    """Keeps the newest tokens, and a reserve for the answer."""

    name: Literal["reserve_tokens"] = "reserve_tokens"
    strategies: tuple[str, ...] = _strategies("recent_tokens")
    prompt: ClassVar[PromptName] = "structured"
    facts_beside_summary: ClassVar[bool] = False

    recent_tokens_keep: PositiveInt = Field(default=20_000, title="Tokens kept")
    """About this number of tokens of the newest messages stays."""

    @classmethod
    def shared(cls, own: Mapping[str, Any]) -> dict[str, Any]:  # noqa: ARG003 - the same whatever is given
        """Return the trigger."""
        return {
            "trigger_ratio": None,
            "triggers": ({"kind": "reserve_tokens", "tokens": 16_384, "operator": ">"},),
        }


class Faithful(Policy):
    """Keeps what later turns need: facts, rules, requests, and as many newest messages as are worth it."""

    name: Literal["faithful"] = "faithful"
    strategies: tuple[str, ...] = _strategies("faithful")
    prompt: ClassVar[PromptName] = "structured"
    form: ClassVar[SummaryForm] = "terse"
    summarizer: ClassVar[Literal["model", "digest"]] = "digest"
    soft_zone: ClassVar[bool] = False
    facts_share: ClassVar[float] = 0.4

    @classmethod
    def shared(cls, own: Mapping[str, Any]) -> dict[str, Any]:  # noqa: ARG003 - the same whatever is given
        """Return the sizes and the recall of this policy."""
        return {"trigger_ratio": 1.0, "target_ratio": 0.4, "recall": "automatic"}


AnyPolicy = Annotated[
    Selective
    | TypedRules
    | Progressive
    | ProgressiveChart
    | ProgressivePseudocode
    | LayeredDefence
    | RecentRounds
    | ReserveTokens
    | Faithful,
    Field(discriminator="name"),
]

POLICIES: Mapping[str, type[Policy]] = {
    kind.model_fields["name"].default: kind for kind in get_args(get_args(AnyPolicy)[0])
}
"""The classes of the policies by name."""

OWN_NAMES: frozenset[str] = frozenset(
    name for kind in POLICIES.values() for name in kind.model_fields if name != "name"
)
"""The names of all settings that belong to policies."""


def policy_in(given: Mapping[str, Any]) -> Policy | dict[str, Any]:
    """Return the policy that settings choose, as an object or as a dict with its name.

    A policy is chosen by `policy`, by the name in `preset`, or else by flat names: the first policy that has all of
    them. Raise `ValueError` for an unknown policy, for two of them, and for a name that the policy does not have.
    """
    own = {name: value for name, value in given.items() if name in OWN_NAMES}
    policy, preset = given.get("policy"), given.get("preset")
    chosen = getattr(policy, "name", None) if isinstance(policy, Policy) else None
    if isinstance(policy, Mapping):
        own = {**cast("Mapping[str, Any]", policy), **own}
        chosen = own.pop("name", None)
    name = chosen or ("preset" in given and preset) or policy_with(own)
    if not isinstance(name, str) or name not in POLICIES:
        raise ValueError(f"there is no preset {name!r}; {nearest(str(name), POLICIES)}")
    if chosen and preset is not None and preset != chosen:
        raise ValueError(f"preset {preset!r} and the policy {chosen!r} are two: give one of them")
    if isinstance(policy, Policy) and own:
        raise ValueError(f"{next(iter(own))!r} stands beside a policy: make it an argument of the policy")
    for one in own:
        if one in OWN_NAMES and one not in POLICIES[name].model_fields:
            known = " and ".join(owners(one))
            raise ValueError(f"{one!r} is a setting of {known}, not of {name}: choose that preset, or leave it out")
    return policy if isinstance(policy, Policy) else {"name": name, **own}


def policy_with(names: Iterable[str]) -> str:
    """Return the name of the first policy that has all these settings; raise `ValueError` if none has."""
    wanted = set(names)
    for name, kind in POLICIES.items():
        if wanted <= kind.model_fields.keys():
            return name
    told = ", ".join(f"{name!r} belongs to {' and '.join(owners(name))}" for name in sorted(wanted & OWN_NAMES))
    raise ValueError(f"no policy has all of these settings: {told}")


def owners(name: str) -> list[str]:
    """Return the names of the policies that have this setting."""
    return [policy for policy, kind in POLICIES.items() if name in kind.model_fields]
