"""Retention, copies, statistics and the import from LangGraph's own savers."""
