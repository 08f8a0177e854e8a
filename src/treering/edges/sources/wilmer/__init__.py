"""What WilmerAI remembers of discussions: its files read, and brought into one discussion."""
