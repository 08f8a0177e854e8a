"""Source code: which language a file is in, what it defines and documents, and how it is cut."""
