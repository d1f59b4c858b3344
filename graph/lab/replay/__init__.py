"""Runs recorded conversations through the real graph."""
