"""Where an agent system meets its memory: tools, tool runs, graph nodes, state, nested loops."""
