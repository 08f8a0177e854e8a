"""What indexes share that keep their rows in a ledger's own database, whatever the database is."""
