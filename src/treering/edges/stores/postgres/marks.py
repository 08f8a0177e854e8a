"""What the row of a space says of moves: nothing where its database serves the space, else a mark.

The mark is read in every transaction, so a process that looks at the wrong server learns of it before it reads or
writes anything. The commit of `MovedAway` at the old server is the moment of a move: from then on the other one has the
space, whatever the directory says.
"""

from dataclasses import dataclass

from treering.core.errors import Corrupt

_AWAY, _ARRIVING = "to", "from"


@dataclass(frozen=True, slots=True)
class MovedAway:
    """The space is on another server. `move`: the id of the move."""

    move: str
    server: str

    def __str__(self) -> str:
        return f"{_AWAY}:{self.move}:{self.server}"


@dataclass(frozen=True, slots=True)
class Arriving:
    """The rows are a copy that a move is making."""

    move: str

    def __str__(self) -> str:
        return f"{_ARRIVING}:{self.move}"


Mark = MovedAway | Arriving

COPYING = Arriving("copy")
"""What `treering move` writes into the space that it fills, until the copy is complete."""


def parse_mark(text: str | None) -> Mark | None:
    """Read the column `spaces.moving`. Raises `Corrupt` for what is not a mark."""
    match (text or "").split(":", 2):
        case [""]:
            return None
        case ["to", move, server]:
            return MovedAway(move, server)
        case ["from", move]:
            return Arriving(move)
    raise Corrupt(
        f"The row of a space says {text!r} of its moves, which is not a state that Treering writes.",
        hint="Restore the database from a backup; something else than Treering wrote to it.",
    )
