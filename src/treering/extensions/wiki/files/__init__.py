"""Wiki pages as files: publishing, checks, and people's changes."""
