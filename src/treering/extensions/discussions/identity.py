"""The identity of a discussion: a validated id, its scope, the tag for it in messages, and its writes."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from treering.core.errors import InvalidInput
from treering.core.fencing import cut
from treering.core.patch import Operation, Receipt
from treering.core.scope import ROOT, parse_scope
from treering.verbs.crystallize.submission import apply_directly
from treering.verbs.engine import Engine

_MARK = re.compile(r"\[(?P<end>/?)DiscussionId\]", re.IGNORECASE | re.ASCII)
_MOST_CHARS = 128
_MOST_TAGGED = 256
"""What stands between two marks and is longer is not an id, with however much white space."""
_SECTION = "discussion"


@dataclass(frozen=True, slots=True)
class DiscussionRef:
    """A discussion: its id, and the parent scope of discussions (`/`, or a user's, a team's)."""

    id: str
    within: str = ROOT

    @property
    def scope(self) -> str:
        """The scope of everything that belongs to it."""
        return f"{home_of(self.within)}/{self.id}"

    @property
    def origin(self) -> str:
        """The origin of its sources: each is this, `#`, and the position of its first message."""
        return f"discussion:{self.id}"


def discussion_ref(discussion_id: object, *, within: str = ROOT) -> DiscussionRef:
    """Return the reference to a discussion. Raises `InvalidInput` for an id that is empty or could be a path."""
    return DiscussionRef(checked_id(discussion_id), parse_scope(within))


def home_of(within: str) -> str:
    """Return the scope that holds all discussions below `within`."""
    return f"{'' if within == ROOT else within}/{_SECTION}"


def checked_id(discussion_id: object) -> str:
    """Return an id without white space around it. Raises `InvalidInput` where it is empty, long, or could be a path."""
    name = discussion_id.strip() if isinstance(discussion_id, str) else ""
    unfit = not name or len(name) > _MOST_CHARS or name in {".", ".."} or any(c in "/\\" or c < " " for c in name)
    if unfit or "\x7f" in name:
        raise InvalidInput(
            f"{discussion_id!r} is not a valid discussion id." if name else "The discussion id is empty.",
            hint=f"Use 1 to {_MOST_CHARS} characters without '/', '\\' or control characters.",
            details={"given": repr(discussion_id)[:200]},
        )
    return name


@dataclass(frozen=True, slots=True)
class Tagged:
    """A text without its tags, and the ids that they name, in order and unchecked."""

    text: str
    ids: tuple[str, ...] = ()


def without_tags(text: str) -> Tagged:
    """Take `[DiscussionId]…[/DiscussionId]` out of a text. In time that grows with its length."""
    ids: list[str] = []
    spans: list[tuple[int, int]] = []
    opening: re.Match[str] | None = None
    for mark in _MARK.finditer(text):
        if not mark["end"]:
            opening = mark
        elif opening and mark.start() - opening.end() <= _MOST_TAGGED:
            ids.append(text[opening.end() : mark.start()])
            spans.append((opening.start(), mark.end()))
            opening = None
    return Tagged(cut(text, spans), tuple(ids))


def apply_patch(
    engine: Engine, ref: DiscussionRef, operations: Sequence[Operation], *, reason: str, key: str | None = None
) -> Receipt:
    """Write operations as one patch; the same `key` again gives the first receipt.

    Raises `Denied` where the space wants a review, and what the ledger raises.
    """
    told = f"{reason} of discussion {ref.id}"
    return apply_directly(engine, ref.scope, operations, what="Discussion memory", reason=told, key=key)


# What is said where there is nothing to give. The one table of such texts, and how they are told from words.


Missing = Literal["memories", "newer_memories", "messages", "summary", "state", "found"]

NOTHING_YET: Mapping[Missing, str] = {
    "memories": "No memories have been generated yet",
    "newer_memories": "There are no memories newer than the summary.",
    "messages": "Nothing has been said in this conversation yet.",
    "summary": "There is no summary of this conversation yet.",
    "state": "Nothing is noted yet about what is true now.",
    "found": "Nothing was found.",
}


def text_or_placeholder(text: str, missing: Missing) -> str:
    """Return a text, or what stands for it where it is empty."""
    return text if text.strip() else NOTHING_YET[missing]


def is_placeholder(text: str) -> bool:
    """Tell whether a text is empty, or only says that there is nothing yet, as workflows hand it on."""
    said = " ".join(text.split()).rstrip(" .!").casefold()
    return not said or said in _KNOWN or _NOT_YET.fullmatch(said) is not None


_KNOWN = frozenset(text.rstrip(" .").casefold() for text in NOTHING_YET.values())
_NOT_YET = re.compile(
    r"(?:there (?:is|are) )?(?:no|not(?: yet)?(?: an?y?)?)(?: (?:new|newer|recent|current|chat|rolling))*"
    r" (?:memory|memories|summary|summaries)(?: files?)?"
    r"(?: (?:have|has) been (?:generated|made|written|created|found)| found| available)?(?: yet)?"
)
