"""Wiki pages as files: published whole, checked, and what a person changed in them."""
