"""Retention, copies, figures and the import from LangGraph's own savers."""
