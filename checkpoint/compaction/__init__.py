"""Snapshots, paid summaries, the ledger, the archive and its search."""
