"""The machine: settings, the clock, private files, addresses and access keys."""
