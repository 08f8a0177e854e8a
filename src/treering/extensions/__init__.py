"""The parts that people use by name; each can be left out."""
