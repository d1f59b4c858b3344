"""Stores the checkpoints of a conversation thread and the pending writes of each checkpoint."""
