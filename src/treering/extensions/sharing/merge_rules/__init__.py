"""The rules of a merge: the order of entries, the state they lead to, and its consequences."""
