"""Knowledge that files state: decision records, rules, notes of basic-memory."""

from treering.registry import Extension

EXTENSION = Extension("records", file_statements="treering.extensions.records.statements:statements")
