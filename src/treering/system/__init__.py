"""What the machine gives: settings, the clock, private files, addresses and access keys."""
