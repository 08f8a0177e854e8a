"""The version of Treering."""

__version__ = "0.2.0"
