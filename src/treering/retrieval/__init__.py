"""Derived data that can be rebuilt from the ledger, and search: text, index, graph, ranking."""
