"""Applying patches: drafts, plans, transactions, and the journal."""
