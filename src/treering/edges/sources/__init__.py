"""Adapters: each reads one kind of outside material and proposes what to record."""
