"""Secrets in text: patterns, and redaction."""
