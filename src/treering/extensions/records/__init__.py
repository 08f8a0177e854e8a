"""Knowledge that files state: decision records, rules, notes of basic-memory."""
