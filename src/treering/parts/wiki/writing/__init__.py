"""A wiki while it is written: plans, pages, citations, and the switch to a new generation."""
