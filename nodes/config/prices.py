"""What models cost, and the usage of a call with its cost."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, NamedTuple

from langgraph_compaction.checkpoint.usage import Usage


class Price(NamedTuple):
    """Dollars for a million tokens."""

    input: float
    cache_read: float
    cache_write: float
    output: float
    long: tuple[int, float, float] | None = None
    """A number of input tokens, and the factors of input and output in a request that has more."""

    def dollars(self, usage: Usage, *, kept_longer: int = 0) -> float:
        """Return the cost of one call; `kept_longer` tokens were written to Claude's cache for an hour."""
        fresh = usage.input_tokens - usage.cache_read_tokens - usage.cache_write_tokens
        asked = fresh * self.input + usage.cache_read_tokens * self.cache_read
        asked += (usage.cache_write_tokens - kept_longer) * self.cache_write + kept_longer * 2 * self.input
        answered = usage.output_tokens * self.output
        if self.long is not None and usage.input_tokens > self.long[0]:
            asked, answered = asked * self.long[1], answered * self.long[2]
        return (asked + answered) / 1e6


_OPENAI, _GEMINI = (272_000, 2.0, 1.5), (200_000, 2.0, 1.5)

PRICES: Mapping[str, Price] = {
    # https://developers.openai.com/api/docs/pricing, standard tier, November 2026
    "gpt-6.2-astra": Price(8, 0.40, 10, 40, _OPENAI),
    "gpt-6.2-sol": Price(2, 0.10, 2.50, 10, _OPENAI),
    "gpt-6.1-sol": Price(2, 0.10, 2.50, 10, _OPENAI),
    "gpt-6.1-terra": Price(1, 0.05, 1.25, 5, _OPENAI),
    "gpt-6-luna": Price(0.10, 0.01, 0.125, 0.50, _OPENAI),
    "gpt-5.4": Price(2.50, 0.25, 2.50, 15, _OPENAI),
    "gpt-5.2": Price(1.75, 0.175, 1.75, 14),
    "gpt-5": Price(1.25, 0.125, 1.25, 10),
    "gpt-5-mini": Price(0.25, 0.025, 0.25, 2),
    "gpt-4o": Price(2.50, 1.25, 2.50, 10),
    "gpt-4o-mini": Price(0.15, 0.075, 0.15, 0.60),
    # https://platform.claude.com/docs/en/about-claude/pricing, October 2026
    "claude-fable-5-1": Price(10, 0.25, 12.50, 50),
    "claude-opus-5-5": Price(4, 0.20, 5, 20),
    "claude-opus-5": Price(5, 0.50, 6.25, 25),
    **dict.fromkeys([f"claude-opus-4-{minor}" for minor in (5, 6, 7, 8)], Price(5, 0.50, 6.25, 25)),
    "claude-sonnet-5-5": Price(2, 0.10, 2.50, 10),
    "claude-sonnet-5": Price(2, 0.20, 2.50, 10),
    **dict.fromkeys([f"claude-sonnet-4-{minor}" for minor in (5, 6)], Price(3, 0.30, 3.75, 15)),
    "claude-haiku-5-5": Price(0.10, 0.01, 0.125, 0.50, (100_000, 5.0, 5.0)),
    "claude-haiku-4-5": Price(1, 0.10, 1.25, 5),
    # https://ai.google.dev/gemini-api/docs/pricing, as of 1 December 2026
    "gemini-4-argon": Price(4, 0.20, 4, 20),
    "gemini-3.1-pro": Price(2, 0.20, 2, 12, _GEMINI),
    "gemini-3-pro": Price(2, 0.20, 2, 12, _GEMINI),
    "gemini-3-flash": Price(0.50, 0.05, 0.50, 3),
    "gemini-2.5-pro": Price(1.25, 0.125, 1.25, 10, _GEMINI),
    "gemini-2.5-flash": Price(0.30, 0.03, 0.30, 2.50),
}
"""By the beginning of a model's name. In the name, only a date, a version, `latest` or `preview` may follow it: a
variant with a name of its own has its own price."""

VERSION_DIGITS = 8
"""Most digits of a date in a model's name."""


def price_of(names: tuple[str | None, ...], prices: Mapping[str, Price]) -> Price | None:
    """Return the price of the first of a model's names that has one, by the longest beginning that fits."""
    for name in names:
        own = (name or "").rpartition("/")[2]
        fitting = [key for key in prices if own.startswith(key) and _is_version(own[len(key) :])]
        if fitting:
            return prices[max(fitting, key=len)]
    return None


def _is_version(rest: str) -> bool:
    said = rest.lstrip("-@:").replace("-", "")
    dated = said.isdigit() and 3 <= len(said) <= VERSION_DIGITS  # noqa: PLR2004 - 001, 0613, 20260801
    return not said or dated or said.startswith(("latest", "preview"))


def usage_of(reported: Mapping[str, Any] | None, names: tuple[str | None, ...], prices: Mapping[str, Price]) -> Usage:
    """Return the usage of one call from a message's `usage_metadata`; `names` are those of the model."""
    if not reported or not (reported.get("input_tokens") or reported.get("output_tokens")):
        return Usage(calls=1, cost=None)
    given, said = _details(reported, "input"), _details(reported, "output")
    longer = given.get("ephemeral_1h_input_tokens", 0)
    read = _sum(given, "cache_read")
    wrote = max(_sum(given, "cache_creation"), longer + given.get("ephemeral_5m_input_tokens", 0))
    reasoned = _sum(said, "reasoning")
    sent, written = reported.get("input_tokens") or 0, reported.get("output_tokens") or 0
    usage = Usage(
        calls=1,
        input_tokens=sent if read + wrote <= sent else sent + read + wrote,  # some servers count the cache beside it
        cache_read_tokens=read,
        cache_write_tokens=wrote,
        output_tokens=written if reasoned <= written else written + reasoned,  # and the reasoning
        reasoning_tokens=reasoned,
        cost=None,
    )
    price = price_of(names, prices)
    return usage if price is None else replace(usage, cost=price.dollars(usage, kept_longer=longer))


def _details(reported: Mapping[str, Any], side: str) -> dict[str, int]:
    return {name: count or 0 for name, count in (reported.get(f"{side}_token_details") or {}).items()}


def _sum(details: Mapping[str, int], kind: str) -> int:
    """Return a kind of tokens, which OpenAI reports with its service tier, as `flex_cache_read`."""
    return sum(count for name, count in details.items() if name.endswith(kind))
