"""Sources: adapters find outside material, formats read it, and both only propose what to record."""
