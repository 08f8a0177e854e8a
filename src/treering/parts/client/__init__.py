"""The memory of agent systems: store and retrieve, sessions and nested contexts, profiles."""

from treering.registry import Part

PART = Part(name="client")
