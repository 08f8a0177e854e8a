"""What ledgers share that keep rows in a database: how texts lie in them, and how rows are checked and read."""
