"""The authors of entries: an agent, or the person of another copy of the space."""

from functools import cached_property

from treering.core.objects import Knowledge
from treering.core.writing.journal import MERGE
from treering.ports.ledger import Ledger
from treering.verbs.scoped_ledger import whole

AGENT_OF = "coding agent of "
"""What precedes the name of the user in the name of the author of a stored session."""

_BY_AGENT = "by an agent"
_BELIEVED = ("active", "contested")


def agent_note(item: Knowledge) -> str:
    """Return the mark of a believed entry that an agent recorded and no person confirmed; empty for others.

    An agent may record a statement with evidence, and confirm it, without a person. The channel of an entry is the
    channel of its first event until a person confirms the entry or another channel changes its words.
    """
    return _BY_AGENT if item.origin_channel == "agent" and item.status in _BELIEVED else ""


class Authorship:
    """Distinguishes objects recorded in this copy of a space from objects that a merge or sync brought."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = whole(ledger)

    @cached_property
    def _has_merged(self) -> bool:
        return bool(self._ledger.events_of(MERGE))

    def other_author(self, identity: str) -> str | None:
        """Return the name of the person who recorded an object in another copy, or `None` if this copy recorded it.

        The name is empty if only the program is known that recorded it.
        """
        events = self._ledger.events_of(identity) if self._has_merged else ()
        if not events or events[0].merged is None:
            return None
        actor, channel = events[0].actor, events[0].channel
        return actor.removeprefix(AGENT_OF) if actor.startswith(AGENT_OF) or channel == "user" else ""
