"""Code: git repositories, the parsing of languages, and who calls whom."""
