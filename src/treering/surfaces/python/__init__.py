"""Treering in Python."""
