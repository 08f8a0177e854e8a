"""Coding agents and editors: connected by their own configuration, and remembered by hooks."""
