"""Text as index terms, and dates in text."""
