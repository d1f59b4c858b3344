"""Stores the snapshots, paid summaries, ledger rows and archives of compactions, and searches the archives."""
