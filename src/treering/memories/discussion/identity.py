"""Which discussion it is: a checked id, its scope, and the tag that may name it in a message."""

import re
from collections.abc import Iterable
from dataclasses import dataclass

from treering.core.errors import InvalidInput
from treering.core.scope import ROOT, parse_scope
from treering.tools.turns import Message

_TAG = re.compile(r"\[DiscussionId\](.*?)\[/DiscussionId\]", re.IGNORECASE | re.DOTALL)
_MOST_CHARS = 128
_SECTION = "discussion"


@dataclass(frozen=True, slots=True)
class Place:
    """Where a discussion lies: its id, and the scope below which discussions are kept (`/`, or a user's, a team's)."""

    id: str
    within: str = ROOT

    @property
    def scope(self) -> str:
        """The scope of everything that belongs to it."""
        return f"{shelf_of(self.within)}/{self.id}"

    @property
    def origin(self) -> str:
        """The origin of its sources: each is this, `#`, and the position of its first message."""
        return f"discussion:{self.id}"


def place_of(discussion_id: object, *, within: str = ROOT) -> Place:
    """Give the place of a discussion. Raises `InvalidInput` for an id that is empty or could be a path."""
    return Place(checked_id(discussion_id), parse_scope(within))


def shelf_of(within: str) -> str:
    """Give the scope that holds all discussions below `within`."""
    return f"{'' if within == ROOT else within}/{_SECTION}"


def checked_id(discussion_id: object) -> str:
    """Give an id without white space around it. Raises `InvalidInput` where it is empty, long, or could be a path."""
    name = discussion_id.strip() if isinstance(discussion_id, str) else ""
    unfit = not name or len(name) > _MOST_CHARS or name in {".", ".."} or any(c in "/\\" or c < " " for c in name)
    if unfit or "\x7f" in name:
        raise InvalidInput(
            f"{discussion_id!r} is no discussion id." if name else "The discussion id is empty.",
            hint=f"Use 1 to {_MOST_CHARS} characters without '/', '\\' or control characters.",
            details={"given": repr(discussion_id)[:200]},
        )
    return name


def without_tags(messages: Iterable[Message]) -> tuple[str | None, list[Message]]:
    """Take `[DiscussionId]…[/DiscussionId]` out of all messages; give the last id that is named, unchecked."""
    named: str | None = None
    left: list[Message] = []
    for message in messages:
        found = _TAG.findall(message.content)
        named = found[-1] if found else named
        left.append(message.model_copy(update={"content": _TAG.sub("", message.content)}) if found else message)
    return named, left
