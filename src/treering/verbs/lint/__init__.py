"""`lint`: find drift and repair it; upkeep and erasure."""
