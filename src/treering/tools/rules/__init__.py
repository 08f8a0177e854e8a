"""Lint rules, one small pure function each, over a survey of what a space holds."""
