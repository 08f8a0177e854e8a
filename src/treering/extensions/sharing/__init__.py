"""Copies of a space: transfers, differences, merges, syncs over git or a shared folder, and proofs of answers."""
