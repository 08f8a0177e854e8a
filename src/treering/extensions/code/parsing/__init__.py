"""Source code: languages, definitions and documentation of files, and their segments."""
