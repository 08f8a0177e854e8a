"""Finding a name in a line where it stands as a whole word: without a pattern, which costs more to make than to use."""


def word_at(line: str, word: str) -> int:
    """Return where a word stands in a line by itself, -1 where it does not; `$` belongs to words, too."""
    at = line.find(word) if word else -1
    while at >= 0:
        end = at + len(word)
        if not (_is_part(line[at - 1 : at]) and _is_part(word[0])) and not _is_part(line[end : end + 1]):
            return at
        at = line.find(word, at + 1)
    return -1


def _is_part(char: str) -> bool:
    return char.isalnum() or char in ("_", "$")
