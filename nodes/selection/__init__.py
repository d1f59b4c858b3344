"""Decide when to compact (triggers, breaker) and which messages to remove from what the model sees (strategies)."""
