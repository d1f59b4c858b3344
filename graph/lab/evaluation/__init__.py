"""Measures, without a model, how much of a conversation is left after a policy has compacted the conversation."""
