"""The stable core: objects, identity, scope, evidence, lifecycle, patches and audit as pure values and functions."""
