"""Merging of duplicates, and budgets of scopes."""
