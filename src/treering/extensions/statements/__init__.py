"""Statements, read from messages by rules, and their replacements in later messages."""
