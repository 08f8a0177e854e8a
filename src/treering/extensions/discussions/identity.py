"""The identity of a discussion: a validated id, its scope, its tags in messages, and its patches."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from treering.core.errors import InvalidInput
from treering.core.objects import Source
from treering.core.patch import Operation, Receipt
from treering.core.scope import ROOT, parse_scope
from treering.verbs.crystallize.submission import apply_directly
from treering.verbs.engine import Engine

_TAG = re.compile(
    # Longer text between two marks is not an id, even if most of it is white space.
    r"\[DiscussionId\]((?:(?!\[/?DiscussionId\]).){0,256})\[/DiscussionId\]",
    re.IGNORECASE | re.ASCII | re.DOTALL,
)
_MAX_ID_CHARS = 128
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
    """Return the reference to a discussion, whose id is stripped of surrounding white space.

    Raises `InvalidInput` for an id that is empty, long, or could be a path.
    """
    name = discussion_id.strip() if isinstance(discussion_id, str) else ""
    invalid = not name or len(name) > _MAX_ID_CHARS or name in {".", ".."} or any(c in "/\\" or c < " " for c in name)
    if invalid or "\x7f" in name:
        raise InvalidInput(
            f"{discussion_id!r} is not a valid discussion id."
            if name or not isinstance(discussion_id, str)
            else "The discussion id is empty.",
            hint=f"Use 1 to {_MAX_ID_CHARS} characters without '/', '\\' or control characters.",
            details={"given": repr(discussion_id)[:200]},
        )
    return DiscussionRef(name, parse_scope(within))


def ref_of(source: Source) -> DiscussionRef | None:
    """Return the discussion that a source belongs to, if any."""
    within, _, name = source.scope.rpartition(f"/{_SECTION}/")
    ref = DiscussionRef(name, within or ROOT)
    return ref if source.scope == ref.scope and source.origin.startswith(f"{ref.origin}#") else None


def home_of(within: str) -> str:
    """Return the scope that contains all discussions below `within`."""
    return f"{'' if within == ROOT else within}/{_SECTION}"


@dataclass(frozen=True, slots=True)
class Tagged:
    """A text without its tags, and the ids in them, in order and unchecked."""

    text: str
    ids: tuple[str, ...] = ()


def without_tags(text: str) -> Tagged:
    """Remove `[DiscussionId]…[/DiscussionId]` tags from a text, in linear time."""
    return Tagged(_TAG.sub("", text), tuple(_TAG.findall(text)))


def apply_patch(
    engine: Engine, ref: DiscussionRef, operations: Sequence[Operation], *, reason: str, key: str | None = None
) -> Receipt:
    """Write operations as one patch. A repeated `key` returns the first receipt.

    Raises `Denied` if the space requires a review, and the errors of the ledger.
    """
    full_reason = f"{reason} of discussion {ref.id}"
    return apply_directly(engine, ref.scope, operations, what="Discussion memory", reason=full_reason, key=key)


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
    """Return a text, or its placeholder if it is blank."""
    return text if text.strip() else NOTHING_YET[missing]


def is_placeholder(text: str) -> bool:
    """Return whether a text is blank or only states that there is nothing yet, as workflows pass it on."""
    words = " ".join(text.split()).rstrip(" .!").casefold()
    return not words or words in _KNOWN or _NOT_YET.fullmatch(words) is not None


_KNOWN = frozenset(text.rstrip(" .").casefold() for text in NOTHING_YET.values())
_NOT_YET = re.compile(
    r"(?:there (?:is|are) )?(?:no|not(?: yet)?(?: an?y?)?)(?: (?:new|newer|recent|current|chat|rolling))*"
    r" (?:memory|memories|summary|summaries)(?: files?)?"
    r"(?: (?:have|has) been (?:generated|made|written|created|found)| found| available)?(?: yet)?"
)
