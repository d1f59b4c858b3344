"""Decide when to compact (triggers, breaker) and which messages leave the view (strategies)."""
