"""Ledgers and indexes, one folder per technology."""
