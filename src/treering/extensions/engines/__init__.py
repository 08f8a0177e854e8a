"""Engines that search the vectors of a space beside it, each over a technology of its own."""
