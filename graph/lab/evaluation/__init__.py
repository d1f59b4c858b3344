"""What of a conversation is left after a policy has compacted it, measured without a model."""
