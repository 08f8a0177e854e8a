"""The memory of agent systems: store and retrieve, sessions and nested contexts, profiles."""
