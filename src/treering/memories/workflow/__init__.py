"""Workflows: lists of nodes, written as JSON or YAML, that read and write memory and ask language models in order."""
