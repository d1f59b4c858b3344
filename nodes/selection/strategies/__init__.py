"""Strategies: pure functions from a conversation to choices of the messages to drop and to clip, one file each."""
