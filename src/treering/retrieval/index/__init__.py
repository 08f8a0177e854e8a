"""Turn objects into passages, names and graph edges, and index them: tables in memory and mirrored engines."""
