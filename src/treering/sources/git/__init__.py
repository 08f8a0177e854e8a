"""Git: its programs, objects and ignore rules, and which repository a file belongs to."""
