"""Engines that search the vectors of a space in another system, one module per system."""
