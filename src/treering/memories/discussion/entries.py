"""One message as it stands in a discussion, or shall stand, with what a rewriting has to know of it."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime

from treering.core.evidence import Segment
from treering.core.locator import Turn
from treering.memories.discussion.alignment import Mark
from treering.memories.discussion.blocks import Block, Deletion
from treering.memories.discussion.kept import Kept
from treering.tools.turns import Message


@dataclass(frozen=True, slots=True)
class Entry:
    """One message as it shall stand: a new one, one that is kept, or one whose words are gone.

    `kept` and `segments` are there where it stands so already. `after`: a part begins with it (`alignment.Part`).
    """

    key: str
    message: Message
    kept: Kept | None = None
    segments: tuple[Segment, ...] = ()
    deletion: Deletion | None = None
    after: int | None = None

    @property
    def mark(self) -> Mark:
        """What is compared of it."""
        role = self.message.role or self.message.name
        return Mark(self.deletion.key, role, deleted=True) if self.deletion else Mark(self.key, role)

    @property
    def at(self) -> datetime | None:
        """When it was said."""
        return self.deletion.at if self.deletion else self.message.at

    def without_words(self, position: int, *, erased: bool) -> "Entry":
        """Return the place of the message; where it is erased, nothing tells it from others any more."""
        role = self.message.role or self.message.name
        empty = Message(content="", role=role)
        deletion = Deletion(position, role, "" if erased else self.key, self.at)
        return Entry(empty.key if erased else self.key, empty, deletion=deletion, after=self.after)


def entries_of(block: Block) -> list[Entry]:
    """Return the messages of a block as they are kept."""
    segments = {segment.segment_id: segment for segment in block.source.segments}
    deletions = {deletion.position: deletion for deletion in block.deletions}
    return [_entry(kept, segments, deletions.get(kept.position)) for kept in block.messages]


def _entry(kept: Kept, segments: Mapping[str, Segment], deletion: Deletion | None) -> Entry:
    own = tuple(segments[identity] for identity in kept.segment_ids)
    place = own[0].locator if own else None
    message = Message(
        content=kept.text,
        role=kept.role,
        name=kept.speaker if kept.speaker != kept.role else "",
        id=place.message_id if isinstance(place, Turn) else "",
        at=kept.at,
    )
    key = deletion.key if deletion and deletion.key else message.key
    return Entry(key, message, kept, own, deletion, kept.after)
