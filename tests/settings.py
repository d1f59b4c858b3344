"""Settings for tests: flat names, and what a policy's class says, changed for one test."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from langgraph_compaction.nodes.config.policies import OWN_NAMES, POLICIES, Policy, policy_in
from langgraph_compaction.nodes.config.settings import ALIASES, CompactionSettings

OF_THE_CLASS = frozenset({"facts_beside_summary", "facts_share", "soft_zone", "form", "tool_blocks_keep_unread"})
"""Class variables of policies that a test may change."""

KNOWN = {*CompactionSettings.model_fields, *ALIASES, *OWN_NAMES, *OF_THE_CLASS}


def settings(small: Mapping[str, Any] = MappingProxyType({}), **given: Any) -> CompactionSettings:
    """Return settings of flat names; names in `OF_THE_CLASS` change the class of the policy.

    `small` stands below the given ones; what their policy does not have is left out.
    """
    changed = {name: given.pop(name) for name in list(given) if name in OF_THE_CLASS}
    chosen = policy_in(given)
    values = chosen.model_dump() if isinstance(chosen, Policy) else chosen
    own = POLICIES[values["name"]].model_fields
    below = {n: value for n, value in small.items() if n in CompactionSettings.model_fields or n in own}
    if not changed:
        return CompactionSettings(**{**below, **given, "preset": values["name"]})
    kind = type("Changed", (POLICIES[values["name"]],), {"__module__": __name__, **changed})
    shared = {n: value for n, value in {**below, **given}.items() if n in CompactionSettings.model_fields}
    policy = kind(**{**{n: value for n, value in below.items() if n in own}, **values})
    return CompactionSettings(**{**shared, "preset": values["name"], "policy": policy})


def taken(options: dict[str, Any]) -> dict[str, Any]:
    """Take the settings out of the options of a test, and return them."""
    return {name: options.pop(name) for name in list(options) if name in KNOWN}
