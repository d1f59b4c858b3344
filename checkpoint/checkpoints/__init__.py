"""Checkpoints and their pending writes."""
