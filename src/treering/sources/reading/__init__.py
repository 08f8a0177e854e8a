"""Common parts of adapters and formats: access, folders, text, lines, bounded processes."""
