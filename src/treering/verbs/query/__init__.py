"""`query`: usable context first, then deeper."""
