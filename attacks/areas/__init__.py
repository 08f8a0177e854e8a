"""One module per area; each names its attacks in `ATTACKS`."""
