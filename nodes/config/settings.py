"""`CompactionSettings`: every setting a user may change, validated as a whole; and the overrides of one run."""

import json
from collections.abc import Mapping
from functools import cache, cached_property
from typing import Any, Literal, Self, TypeVar, cast

from pydantic import BaseModel, Field, PositiveInt, create_model, model_validator

from ..errors import SettingsError
from .base_model import Frozen
from .policies import (
    OWN_NAMES,
    POLICIES,
    AnyPolicy,
    Policy,
    Preset,
    RecentRounds,
    Selective,
    SummaryMode,
    owners,
    policy_in,
    policy_with,
)
from .prompts import PROMPTS, Language
from .triggers import TokenTrigger, Trigger, UsedRatio, UsedTokens

ALIASES: Mapping[str, str] = {"max_context_tokens": "context_window"}
"""Other names of settings, from the documents."""

P = TypeVar("P", bound=Policy)


class CompactionSettings(Frozen):
    """Settings of a compaction: frozen, JSON only. Dependencies and connections go to the builder.

    The settings of a policy are fields of its own: `policy=Selective(tool_blocks_keep_recent=8)`.
    `preset="selective"` chooses a policy by its name. The settings of policies are also understood as flat names, as
    in YAML and in environment variables; without a preset, a name that only some policies have chooses the first of
    them.
    """

    preset: Preset = Field(default="selective", title="Preset")
    """The policy by its name. Settings that you do not give have the policy's values."""

    policy: AnyPolicy = Field(default=Selective(), title="Policy")
    """The policy with its own settings, in place of `preset`."""

    context_window: PositiveInt | None = Field(default=None, title="Context window (tokens)")
    """Number of tokens of the model's window that are used at most. The model's own window is `max_input_tokens` in
    its profile; without a profile, it is `context_window`. `None`: the whole window of the model."""

    enabled: bool = Field(default=True, title="Compact automatically")
    """Whether compactions start automatically. If false, a compaction runs only when a person or your code asks for
    it, and a request over the limit raises an error."""

    trigger_ratio: float | None = Field(default=0.8, gt=0, le=1, title="Trigger (share of the window)")
    """A compaction starts when the request reaches this share of the window. `None`: only at a condition in
    `triggers`, or over the limit. If the model's `max_tokens` or `output_reserve` is more than 5 % of the window, it
    is a share of the limit."""

    trigger_tokens: PositiveInt | None = Field(default=None, title="Trigger (tokens)")
    """A compaction starts when the request reaches this number of tokens, if `trigger_ratio` has not started one
    before: a large window is paid for long before it is full. `None`: the window alone decides."""

    triggers: tuple[Trigger, ...] = Field(default=(), title="Additional triggers")
    """Triggers in addition to `trigger_ratio`, of the kinds `used_ratio`, `remaining_ratio`, `reserve_tokens`,
    `count`, `marker`, `command` and `own`. A compaction starts as soon as any of them fires."""

    target_ratio: float = Field(default=0.5, gt=0, lt=1, title="Target (share of the room)")
    """Share of the room that the conversation should take after a compaction. The room is the limit minus the tokens
    of the system prompt, the system messages and the tool schemas. A compaction that misses the target is kept if the
    request then fits into the limit."""

    output_reserve: int | None = Field(default=None, ge=0, title="Reserve for the answer (tokens)")
    """Number of tokens that stay free for the model's answer. `None`: the model's `max_tokens`, less the tokens by
    which the model's window is larger than `context_window`, or else a number that
    depends on window and trigger."""

    summary_prompt: str | None = Field(default=None, title="Prompt of a summary")
    """The prompt that asks a chat model for a summary. `{conversation}` and `{focus}` are replaced by the messages
    and by what the user asked to keep; without `{conversation}`, the text is the system message. A prompt that
    contains `<summary>` asks for a reply between these tags. `None`: the policy's own prompt, in `language`."""

    summary_timeout_s: float = Field(default=60.0, gt=0, title="Timeout of a summary (seconds)")
    """Seconds after which a call of the summarizer counts as failed. After twice this time, no further summarizer is
    called in a turn: the request is sent as it is, or, over the limit, with a digest."""

    summary_ahead: bool = Field(default=True, title="Prepare summaries ahead")
    """Whether a model's summary is prepared in the background when the request comes near the trigger, so that the
    turn with the compaction does not wait. With `require_confirmation`, nothing is prepared."""

    on_summary_failure: Literal["digest", "nothing"] = Field(default="nothing", title="After a failed summary")
    """What happens after a model's summary failed and the request fits. `nothing`: it is sent unchanged, and the next
    attempt asks the same summarizer with smaller pieces, or the next of `fallback_summarizers`. `digest`: the digest
    follows these."""

    key_information: tuple[str, ...] = Field(default=(), title="Key information")
    """Names of the sources whose texts stand beside every summary: `goal`, `pins`, `memories`, `git_diff`, `tasks`,
    and those that you give to the builder. `git_diff` needs `GitDiff(folder)` in the builder."""

    require_confirmation: bool = Field(default=False, title="Ask before compacting")
    """Whether a LangGraph interrupt asks a person before each automatic compaction, which needs a checkpointer. The
    question follows the model's answer or a tool's result if the request fits and the policy's `hooks` name
    `post_model`, else also a user's message. Nobody is asked after the provider refused a request as too long."""

    recall: Literal["none", "tool", "automatic", "both"] = Field(default="none", title="Recall")
    """How the messages are searched that compactions removed from the view. `tool`: the agent gets the tool `recall`;
    summaries and shortened results then contain handles, by which the tool returns the originals. `automatic`: the
    archive is searched before the model answers a new user message, and what fits is quoted at the end of this one
    request, in at most 5 % of the room and at most 1,000 tokens."""

    language: Language = Field(default="en", title="Language")
    """Language of the prompts for summaries, of the question before a compaction, and of the fixed text around a
    summary."""

    long_input: Literal["keep", "summarize"] = Field(default="summarize", title="Long input")
    """What happens to the user message that the model has to answer, if the request is over the limit and nothing
    else makes room. `summarize`: it is summarized if the model has read it before, and otherwise shortened to its
    beginning and end. `keep`: it stays, and an error reports the sizes."""

    on_refusal: Literal["message", "raise"] = Field(default="message", title="Input over the limit")
    """What happens at a new message that is larger than the limit; one line stands in its place in the view.
    `message`: the turn ends with an assistant message that says so. `raise`: an error."""

    join_user_messages: bool = Field(default=False, title="Join user messages")
    """Whether adjacent user messages are joined in the request, for providers that require alternating roles."""

    messages_in_state: int | None = Field(default=None, ge=0, title="Hidden messages in the state")
    """Most hidden messages that stay in the state. If a compaction hides more, the oldest move to the archive, until
    half of this number is left; an undo does not bring them back. `None`: no message leaves the state. It has no
    effect where the messages belong to a graph around the agent, without a checkpointer and a thread, and on a branch
    that began with hidden messages."""

    emit_compaction_meta_events: bool = Field(default=False, title="Events of each phase")
    """Whether each phase of a compaction writes a `CompactionMetaEvent` to LangGraph's stream mode `custom`."""

    @model_validator(mode="before")
    @classmethod
    def _with_one_policy(cls, given: Any) -> Any:
        """Find the policy, by name, by value or by flat names, and fill in the shared settings that it sets."""
        if not isinstance(given, Mapping):
            return given
        named = renamed(cast("Mapping[str, Any]", given))
        policy = policy_in(named)
        own = policy.model_dump() if isinstance(policy, Policy) else policy
        shared = {name: value for name, value in named.items() if name not in OWN_NAMES}
        return {**POLICIES[own["name"]].shared(own), **shared, "preset": own["name"], "policy": policy}

    @model_validator(mode="after")
    def _target_below_trigger(self) -> Self:
        if self.trigger_ratio is not None and self.target_ratio >= self.trigger_ratio:
            raise ValueError(
                f"target_ratio ({self.target_ratio}) must be below trigger_ratio ({self.trigger_ratio}): "
                "a compaction that ends where it starts runs at every turn"
            )
        return self

    @cached_property
    def token_triggers(self) -> tuple[TokenTrigger, ...]:
        """Return the triggers that compare tokens, `trigger_ratio` and `trigger_tokens` first."""
        first = () if self.trigger_ratio is None else (UsedRatio(ratio=self.trigger_ratio),)
        second = () if self.trigger_tokens is None else (UsedTokens(tokens=self.trigger_tokens),)
        return (*first, *second, *(trigger for trigger in self.triggers if isinstance(trigger, TokenTrigger)))

    @property
    def has_recall_tool(self) -> bool:
        """Whether the agent has the tool `recall`."""
        return self.recall in ("tool", "both")

    @property
    def quotes_archive(self) -> bool:
        """Whether the archive is searched before the model answers."""
        return self.recall in ("automatic", "both")

    @property
    def prompt(self) -> str:
        """The prompt that asks a chat model for a summary."""
        return self.summary_prompt or PROMPTS[self.policy.prompt, self.language]

    @property
    def summary_mode(self) -> SummaryMode:
        """When a summary is written."""
        return self.policy.summary_mode if isinstance(self.policy, Selective) else self.policy.mode

    @property
    def summary_max_length(self) -> int | None:
        """Most characters of a summary; `None` for no limit."""
        return self.policy.summary_max_length if isinstance(self.policy, RecentRounds) else None

    @property
    def summary_deadline_s(self) -> float:
        """Seconds after which no further summarizer is called for a compaction."""
        return 2 * self.summary_timeout_s

    def of(self, kind: type[P]) -> P:
        """Return the policy if it is of this kind, else such a policy at its defaults.

        So a strategy finds the settings of the policy that it belongs to, also where another policy names it.
        """
        policy: Policy = self.policy
        return policy if isinstance(policy, kind) else _usual(kind)


@cache
def _usual(kind: type[P]) -> P:
    return kind()


def renamed(given: Mapping[str, Any]) -> dict[str, Any]:
    """Return settings by their own names; raise `ValueError` if one stands there by both of its names."""
    for alias, name in ALIASES.items():
        if alias in given and name in given:
            raise ValueError(f"{alias} and {name} are the same setting: give one of them")
    return {ALIASES.get(name, name): value for name, value in given.items()}


SECTIONS: Mapping[str, tuple[str, ...]] = {
    "token_check": (
        *("context_window", "enabled", "trigger_ratio", "trigger_tokens", "triggers", "output_reserve"),
        *("long_input", "on_refusal"),
    ),
    "confirm": ("require_confirmation", "language"),
    "selective_compaction": ("preset", "policy", "target_ratio"),
    "summarize": ("summary_prompt", "summary_timeout_s", "summary_ahead", "key_information", "language"),
    "commit": ("messages_in_state", "emit_compaction_meta_events"),
    "rollback": ("on_summary_failure",),
    "model": ("recall", "join_user_messages"),
}
"""By node of the graph, the settings that LangGraph Studio shows there."""


def _optional(name: str) -> tuple[Any, Any]:
    """Return a setting's type and field for the overrides: `None` by default, with its usual default in words."""
    field = CompactionSettings.model_fields[name]
    kind: Any = AnyPolicy if name == "policy" else field.annotation
    default = json.dumps(field.get_default(call_default_factory=False), default=lambda _: "")
    usual = "" if name in ("preset", "policy") else f" Default of the preset `selective`: {default}."
    described = f"{' '.join((field.description or '').split())}{usual}"
    shown: Any = {"langgraph_nodes": [node for node, names in SECTIONS.items() if name in names]}
    if name == "summary_prompt":
        shown["langgraph_type"] = "prompt"
    return (kind | None, Field(None, title=field.title, description=described, json_schema_extra=shown))


class _Overrides(Frozen):
    """The base of the overrides: flat names of a policy's own settings are put into `policy`."""

    @model_validator(mode="before")
    @classmethod
    def _own_in_policy(cls, given: Any) -> Any:
        if not isinstance(given, Mapping):
            return given
        named = renamed(cast("Mapping[str, Any]", given))
        policy: Any = named.get("policy")
        own: dict[str, Any] = dict(policy) if isinstance(policy, Mapping) and "name" not in policy else {}
        own |= {name: value for name, value in named.items() if name in OWN_NAMES}
        if not own:
            return named
        shared = {name: value for name, value in named.items() if name not in OWN_NAMES}
        chosen = named.get("preset")
        name = chosen if isinstance(chosen, str) and chosen in POLICIES else policy_with(own)
        return {**shared, "policy": POLICIES[name].model_validate(own)}


_create: Any = create_model  # its overloads know no fields given by name

CompactionOverrides: type[BaseModel] = _create(
    "CompactionOverrides",
    __base__=_Overrides,
    __doc__="Settings changed for one run (the graph's context schema). A field that is `None` changes nothing. A "
    "policy without `name`, or a flat name of a setting of policies, changes the policy in force.",
    **{name: _optional(name) for name in CompactionSettings.model_fields},
)


def settings_of(given: CompactionSettings | None) -> CompactionSettings:
    """Return the settings that an application gave, or the default ones; raise `SettingsError` for anything else."""
    if given is None:
        return CompactionSettings()
    if not isinstance(given, CompactionSettings):  # pyright: ignore[reportUnnecessaryIsInstance] # callers err
        raise SettingsError(
            f"settings is a {type(given).__name__}: give settings=CompactionSettings(...), or load_settings(...)"
        )
    return given


def effective(settings: CompactionSettings, overrides: BaseModel | dict[str, Any] | None) -> CompactionSettings:
    """Return the builder's settings with a run's overrides applied, validated again as a whole."""
    if overrides is None:
        return settings
    given = overrides if isinstance(overrides, BaseModel) else CompactionOverrides.model_validate(overrides)
    changed = {
        name: value for name in CompactionOverrides.model_fields if (value := getattr(given, name)) is not None
    }
    if not changed:
        return settings
    policy = _changed(settings.policy, changed.pop("preset", None), changed.pop("policy", None))
    return CompactionSettings.model_validate({**chosen(settings), **changed, "policy": policy})


def _changed(policy: Policy, preset: str | None, given: Policy | None) -> Policy:
    """Return another policy where one is named, and else this one with the given settings."""
    named = preset or (given is not None and "name" in given.model_fields_set and getattr(given, "name", None))
    if named and named != getattr(policy, "name", None):
        policy = POLICIES[named]()
    own = {name: getattr(given, name) for name in (given.model_fields_set if given else ()) if name != "name"}
    for name in own:
        if name not in type(policy).model_fields:
            raise SettingsError(
                f"{name} is a setting of {' and '.join(owners(name))}, not of {getattr(policy, 'name', None)}"
            )
    return policy.model_copy(update=own)


def chosen(settings: CompactionSettings) -> dict[str, Any]:
    """Return the shared settings that differ from the policy's: those that stay when another policy is chosen."""
    usual = CompactionSettings(policy=settings.policy)
    names = CompactionSettings.model_fields.keys() - {"preset", "policy"}
    return {name: value for name in names if (value := getattr(settings, name)) != getattr(usual, name)}


def flat(settings: CompactionSettings) -> dict[str, Any]:
    """Return all settings as JSON values by flat names, as YAML and the environment have them."""
    values = settings.model_dump(mode="json")
    own = {name: value for name, value in values.pop("policy").items() if name != "name"}
    return {"preset": values.pop("preset"), **own, **values}
