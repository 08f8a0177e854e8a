"""Statements: what people say holds, read from messages by rules, and which of it later messages replaced."""
