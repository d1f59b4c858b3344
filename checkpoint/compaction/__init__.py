"""Snapshots, ledger, archive and search."""
