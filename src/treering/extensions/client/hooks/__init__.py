"""Connections of an agent system to its memory: tools, tool runs, graph nodes, state, nested loops."""
