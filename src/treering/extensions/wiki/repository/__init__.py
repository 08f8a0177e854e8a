"""A repository as its wiki sees it: its files, what they define, who imports whom."""
