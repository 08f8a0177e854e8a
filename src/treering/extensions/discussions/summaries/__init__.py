"""What was said, in short: memories, the rolling summary and the state document."""
