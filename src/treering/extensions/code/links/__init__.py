"""Links between places in code: imports, calls, uses and tests."""
