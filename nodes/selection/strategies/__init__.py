"""Strategies: pure functions from a conversation to choices of messages to drop and to clip, one per file."""
