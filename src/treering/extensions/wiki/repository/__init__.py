"""A repository as the input of a wiki: its files, their definitions, and their imports."""
