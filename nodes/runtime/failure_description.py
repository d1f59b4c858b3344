"""From an exception to what ledger and events say of it."""

from ..conversation.redaction import masked
from ..gate.invariants import Finding
from ..providers.overflow import classify


def failure(error: Exception, reason: str) -> Finding:
    """The verdict of an attempt that this error ended; no key that its text quotes is told."""
    kind = classify(error)
    verdict = "failed_transient" if kind == "transient" else "failed_permanent"
    return Finding(verdict, f"{reason}:{type(error).__name__}", masked(str(error)), kind)
