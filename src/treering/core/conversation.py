"""Which message is which: hashes that tell equal messages apart and show where two records of a conversation differ."""

from collections.abc import Iterable, Iterator

from treering.core.canonical import digest

_KEY_CHARS = 20


def message_key(role: str, content: str) -> str:
    """Hash what a message says, by whom; white space does not count."""
    return digest(f"{role}\n{' '.join(content.split())}")[:_KEY_CHARS]


def chain_hashes(keys: Iterable[str], *, after: str = "") -> Iterator[str]:
    """Yield for each message, by its `message_key`, the hash of it and of all before it.

    `after` is the hash of the message before the first. Equal messages at different places have different hashes,
    and two records of one conversation have the same hashes up to the first message in which they differ.
    """
    for key in keys:
        after = digest(f"{after}\n{key}")[:_KEY_CHARS]
        yield after
