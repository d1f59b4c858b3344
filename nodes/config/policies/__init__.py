"""The policies: a file for each system of the source documents, with the system's own settings as fields.

Class variables say how the document's system works; they are no settings.
"""

from .base import Policy, SummaryMode
from .faithful import Faithful
from .layered_defence import LayeredDefence
from .progressive import (
    Progressive,
    ProgressiveChart,
    ProgressivePolicy,
    ProgressivePseudocode,
    ProgressiveStrategy,
    TaskType,
)
from .recent_rounds import RecentRounds
from .registry import OWN_NAMES, POLICIES, PRESETS, AnyPolicy, Preset, owners, policy_in, policy_with
from .reserve_tokens import ReserveTokens
from .selective import Selective
from .typed_rules import PRIORITIES, TYPE_RULES, Action, TypedRules, TypeRule

__all__ = [
    "OWN_NAMES",
    "POLICIES",
    "PRESETS",
    "PRIORITIES",
    "TYPE_RULES",
    "Action",
    "AnyPolicy",
    "Faithful",
    "LayeredDefence",
    "Policy",
    "Preset",
    "Progressive",
    "ProgressiveChart",
    "ProgressivePolicy",
    "ProgressivePseudocode",
    "ProgressiveStrategy",
    "RecentRounds",
    "ReserveTokens",
    "Selective",
    "SummaryMode",
    "TaskType",
    "TypeRule",
    "TypedRules",
    "owners",
    "policy_in",
    "policy_with",
]
