"""Pages of a wiki written by rules, without a model."""
