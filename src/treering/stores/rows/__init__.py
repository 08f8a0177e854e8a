"""What ledgers and indexes share that keep rows in a database."""
