"""Documents that are no plain text: PDF, office files, books and mail."""
