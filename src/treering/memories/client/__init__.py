"""The memory of an agent system: store and retrieve, sessions and nested contexts, profiles."""
