"""Pure policies: no LangGraph, no model, no clock, no input or output."""
