"""Finding memories and messages again."""
