"""A moment of the feed that engines follow, where a log of passages and the audit log lie in a database."""

from dataclasses import dataclass, replace


@dataclass(frozen=True, slots=True)
class FeedPlace:
    """The epoch of passage keys, a position in the log of passages, and the head of the audit log.

    The head tells a copy of the space that went another way. Written `epoch:position:sequence:hash`.
    """

    epoch: int
    position: int
    sequence: int
    hash: str

    def __str__(self) -> str:
        return f"{self.epoch}:{self.position}:{self.sequence}:{self.hash}"

    @classmethod
    def read(cls, moment: str) -> "FeedPlace | None":
        """Read a moment; `None` where it is none of such a feed."""
        match moment.split(":"):
            case [epoch, position, sequence, told] if all(part.isdecimal() for part in (epoch, position, sequence)):
                return cls(int(epoch), int(position), int(sequence), told)
        return None

    def at(self, position: int) -> "FeedPlace":
        """Return the same at another position of the log."""
        return replace(self, position=position)


def short_hash(text: str) -> str:
    """Return as much of the hash of an audit event as a moment keeps."""
    return text.removeprefix("sha256:")[:16]
