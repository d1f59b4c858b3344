"""All policies by name, and which of them settings choose."""

from collections.abc import Iterable, Mapping
from typing import Annotated, Any, Literal, cast, get_args

from pydantic import Field

from ..base_model import nearest
from .base import Policy
from .faithful import Faithful
from .layered_defence import LayeredDefence
from .progressive import Progressive, ProgressiveChart, ProgressivePseudocode
from .recent_rounds import RecentRounds
from .reserve_tokens import ReserveTokens
from .selective import Selective
from .typed_rules import TypedRules

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
