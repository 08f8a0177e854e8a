"""Coding agents and editors that Treering is connected to, by their own configuration files."""
