"""The policy `selective`."""

from typing import Literal

from pydantic import Field, NonNegativeInt, PositiveInt

from .base import Policy, SummaryMode, strategies_of


class Selective(Policy):
    """Drops old tool blocks, keeps 12 rounds, always summarizes the rest."""

    name: Literal["selective"] = "selective"
    strategies: tuple[str, ...] = strategies_of("tool_blocks")

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
