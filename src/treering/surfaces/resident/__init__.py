"""Commands that answer at once: a process that stays loaded, and the client that hands a command to it."""
