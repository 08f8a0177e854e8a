"""Discussion memory: what was said, kept message by message; memories, a rolling summary and a state made of it."""
