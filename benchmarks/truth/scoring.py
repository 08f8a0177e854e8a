"""Whether lines that are shown as current show what holds, and nothing that does not."""

import re
import unicodedata
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from benchmarks.truth.conversations import Conversation, Labelled


@dataclass(frozen=True, slots=True)
class ShownLine:
    """A line shown as current, whom it is attributed to, and the heading above it."""

    text: str
    speaker: str = ""
    heading: str = ""
    was: str = ""
    """What the line names as replaced: context of what holds, and not shown as current."""


@dataclass(frozen=True, slots=True)
class Score:
    """How one conversation is shown."""

    holds: tuple[bool, ...]
    """For each statement that holds, whether it is shown."""
    ended: tuple[bool, ...]
    """For each that no longer holds, whether it is shown as current."""
    never: tuple[bool, ...]

    @property
    def is_right(self) -> bool:
        """Whether all that holds is shown, and nothing else as current."""
        return all(self.holds) and not any(self.ended) and not any(self.never)


def score(conversation: Conversation, lines: Sequence[ShownLine]) -> Score:
    """Judge the lines of a surface."""
    return Score(
        tuple(any(shows_now(line, one) for line in lines) for one in conversation.holds),
        tuple(any(shows_ended(line, one, conversation) for line in lines) for one in conversation.ended),
        tuple(any(_credits(line, one, conversation) for line in lines) for one in conversation.never),
    )


def unspoken(conversation: Conversation) -> Iterator[str]:
    """Return the labels whose tokens are not in the messages up to and including theirs."""
    for part in ("holds", "ended", "never"):
        for one in getattr(conversation, part):
            said = folded(" ".join(message.text for message in conversation.messages[: one.message + 1]))
            for token in one.tokens:
                if not any(contains(said, spelling) for spelling in token):
                    yield f"{part} {one.tokens}: {token} is not in the messages up to {one.message}"


def folded(text: str) -> str:
    """Return a text without accents, case and most punctuation."""
    plain = unicodedata.normalize("NFKD", text).casefold().replace("’", "'")
    bare = "".join(char for char in plain if not unicodedata.combining(char))
    return re.sub(r"[^\w.,:'€$%-]+", " ", bare)


def contains(text: str, token: str) -> bool:
    """Return whether a folded text has a token as whole words."""
    return re.search(rf"(?<![\w]){re.escape(folded(token).strip())}(?![\w])", text) is not None


def _has_all(text: str, one: Labelled) -> bool:
    return all(any(contains(text, spelling) for spelling in token) for token in one.tokens)


def _shows(line: ShownLine, one: Labelled) -> bool:
    named = folded(f"{line.heading} {line.speaker} {line.text} {line.was}")
    return _has_all(folded(line.text), one) and (not one.owner or contains(named, one.owner))


def shows_now(line: ShownLine, one: Labelled) -> bool:
    """Return whether a line shows what holds: some of it as current, the rest of it perhaps in what it replaced."""
    text = folded(line.text)
    is_new = any(contains(text, spelling) for token in one.tokens for spelling in token)
    return is_new and _shows(replace(line, text=f"{line.text} {line.was}"), one)


def shows_ended(line: ShownLine, one: Labelled, conversation: Conversation) -> bool:
    text = folded(line.text)
    if not _shows(line, one) or any(contains(text, word) for word in one.unless):
        return False
    return not any(_has_all(text, now) and _shares(now, one) for now in conversation.holds)


def _credits(line: ShownLine, one: Labelled, conversation: Conversation) -> bool:
    text = folded(line.text)
    attributed = not one.owner or folded(line.speaker or line.heading).strip() == folded(one.owner).strip()
    if not attributed or not _has_all(text, one) or any(contains(text, word) for word in one.unless):
        return False
    return not any(_has_all(text, now) and _shares(now, one) and now.owner == one.owner for now in conversation.holds)


def _shares(now: Labelled, ended: Labelled) -> bool:
    spellings = {folded(spelling) for token in now.tokens for spelling in token}
    return any(folded(spelling) in spellings for token in ended.tokens for spelling in token)
