"""What was said: messages in blocks, recorded as they are told."""
