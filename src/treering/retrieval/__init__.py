"""What can be rebuilt from the ledger at any time, and how a question finds it: text, index, graph, search."""
