"""What the engine asks of the outside, as small protocols and request values."""
