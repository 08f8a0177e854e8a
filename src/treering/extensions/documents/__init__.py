"""Documents that are not plain text: PDF, office files, books, mail, notebooks, OpenAPI."""
