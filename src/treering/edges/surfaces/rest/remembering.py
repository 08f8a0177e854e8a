"""Memory beside the chat endpoint: what a request may ask of it, and what a header tells of it."""

from dataclasses import dataclass

from treering.core.errors import Denied
from treering.core.scope import ROOT, is_within, parse_scope
from treering.edges.surfaces.rest.callers import Caller
from treering.memories.chat_memory import ChatBounds, Recall, Storing


@dataclass(frozen=True, slots=True, kw_only=True)
class MemorySettings(ChatBounds):
    """What memory may cost a chat, and where it is. Raises `InvalidInput` for numbers and scopes that make no sense."""

    within: str = ROOT
    """The scope below which discussions are kept; a request may name one below it."""
    tags: bool = False
    """Whether a tag in the client's first system message, or in the last one of the user, may name the discussion."""

    def __post_init__(self) -> None:
        ChatBounds.__post_init__(self)
        parse_scope(self.within)

    def scope(self, asked: str | None, *, caller: Caller) -> str:
        """Return the scope a request names, else that of its key where that is below the common one, else the latter.

        Raises `InvalidInput`, and `Denied` for one outside.
        """
        common = caller.scope if is_within(caller.scope, self.within) else self.within
        scope = caller.scope_for(parse_scope(asked) if asked is not None else common)
        if not is_within(scope, self.within):
            raise Denied(
                f"The scope {scope} is not below {self.within}, the scope of this server's discussions.",
                hint="Name a scope below it, or none.",
            )
        return scope


def told_of_recall(recall: Recall) -> str:
    """Say how recalling went."""
    how = (
        f"recalled; hits={recall.reminder.hits}; ms={recall.milliseconds}"
        if recall.how == "recalled"
        else f"{recall.how}; reason={recall.reason}"
    )
    return f"{how}; unstored={recall.unstored}" if recall.unstored else how


def told_of_storing(storing: Storing) -> str:
    """Say what became of an exchange, if there is anything to be told of it."""
    match storing.how:
        case "late":
            return "; stored=late"
        case "lost":
            return "; stored=no"
        case "stored":
            return "; conversation=new" if storing.is_apart else ""
