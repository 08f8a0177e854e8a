"""The ports of the engine to the outside, as small protocols and request values."""
