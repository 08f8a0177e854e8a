"""Named memories, built from the four verbs."""
