"""From a patch to what is kept: drafts, plans, transactions, and the journal."""
