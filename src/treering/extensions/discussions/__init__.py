"""Discussion memory: messages, memories, a rolling summary and a state document."""
