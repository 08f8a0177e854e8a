"""Coding agents and editors: connected by their own configuration, and remembered by hooks."""

from treering.registry import Part

PART = Part(name="coding_agents", commands=("treering.parts.coding_agents.commands:add_connecting",))
