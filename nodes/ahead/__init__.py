"""Summaries that are prepared in the background, ahead of the compactions that use them."""
