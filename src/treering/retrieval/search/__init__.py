"""From a question to ranked hits and a packed context."""
