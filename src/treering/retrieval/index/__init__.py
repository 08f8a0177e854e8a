"""What of an object can be found: passages, their names and ties, and tables in memory."""
