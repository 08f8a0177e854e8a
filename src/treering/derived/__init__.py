"""What can be rebuilt from the ledger at any time: passages, ranking, packing."""
