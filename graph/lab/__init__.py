"""Recorded conversations: replays through the graph, evaluation of policies, and the demonstration."""
