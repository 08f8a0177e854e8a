"""Fast commands: a process with all modules loaded, and the client that passes commands to it."""
