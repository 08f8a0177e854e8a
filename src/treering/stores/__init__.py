"""Ledgers, indexes and engines, one folder per technology."""
