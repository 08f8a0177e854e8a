"""A demonstration of Treering on the working folder."""
