"""The query language and the tokenizers of FTS5, SQLite's full text."""

from collections.abc import Iterable

WORD_TOKENIZER = "ascii tokenchars '_'"
"""FTS5 tokenizer that splits the output of `index_text` at its spaces and nowhere else."""

IDENTIFIER_TOKENIZER = "trigram"
"""FTS5 tokenizer for `identifier_text`: finds any stretch of three or more characters, in either case."""


def fts_query(terms: Iterable[str]) -> str:
    """Write an FTS5 expression that matches a row with any of `terms`; with none it matches no row.

    A term of several words is a phrase. Every term is quoted, so none can be read as syntax. The whole is in
    parentheses: it may be joined with others by `AND`.
    """
    quoted = " OR ".join('"{}"'.format(term.replace('"', '""').replace("\0", " ")) for term in terms)
    return f"({quoted})" if quoted else '("")'
