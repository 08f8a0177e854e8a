"""The version of Treering, for all that tells it."""

__version__ = "0.2.0"
