"""Config groups for Hydra: `pkg://treering.configs` in a search path."""
