"""Who makes memories: rules, or a language model."""
