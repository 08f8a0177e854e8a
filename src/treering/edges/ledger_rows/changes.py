"""What followers of a ledger see of its writes."""

from treering.core.draft import Erased, Put, Write
from treering.ports.projection import Change


def changes_of(write: Write, seq: int) -> list[Change]:
    """Return what a write changes of an object; nothing for links."""
    match write:
        case Put(before=before, after=after):
            return [Change(seq, after.id, before, after)]
        case Erased(before=before):
            return [Change(seq, before.id, before, None)]
        case _:
            return []
