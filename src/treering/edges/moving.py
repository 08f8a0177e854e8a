"""Moving a space: all that its ledger holds, from one address to another, whatever databases these are."""

from contextlib import ExitStack
from dataclasses import replace

from treering.core.audit import Anchor
from treering.core.errors import InvalidInput
from treering.edges import wiring
from treering.edges.address import Address
from treering.edges.settings import Settings
from treering.edges.wiring import Opening, author
from treering.ports.copying import copy_ledger, copy_vectors, head_of_copy
from treering.ports.embedder import Embedder
from treering.ports.stores import Stores
from treering.ports.vectors import KeptVectors
from treering.tools.engine import Progress, silent
from treering.tools.envelope import Value


class MoveReport(Value):
    """What is at the new address now, compared with the old one and verified."""

    head: Anchor
    """The head of the audit log."""
    counts: dict[str, int]
    """The number of records per table."""
    vectors: int
    """Vectors that came along. What else has none is embedded when the space is next open."""


def move(
    source: str | Address, target: str | Address, *, progress: Progress = silent, embedder: Embedder | None = None
) -> MoveReport:
    """Copy a space to another address, or go on with a copy that was broken off; `treering.move` is this function.

    The source is read and stays as it is. The copy has the same ids, revisions, audit events, patches and idempotency
    keys; both are compared record by record, and the copy is verified. Vectors come along where both sides keep them.
    Calling it again copies what was written since. Until the copy is complete and verified, nobody can open it.
    Raises `InvalidInput` for addresses that cannot be moved between, `NotFound` where there is no source, `Conflict`
    where the target holds something else or the source does not stop being written, and whatever opening raises.
    """
    settings = Settings.read()
    places = [one if isinstance(one, Address) else settings.space_address(one) for one in (source, target)]
    _check_places(*places)
    with ExitStack() as closing:
        opened: list[Stores] = []
        # An anchor that is set is the source's. The target's log is behind it until the end.
        for place, known in zip(places, (settings, replace(settings, anchor="")), strict=True):
            create = bool(opened)
            opening = Opening(
                place, known, author(None, "agent", known), create=create, embedder=embedder, arriving=create
            )
            opened.append(wiring.open_stores(opening))
            closing.callback(opened[-1].close)
        old, new = opened
        head_of_copy(old.ledger, new.ledger)  # what is no copy of this source is refused before it is marked
        if new.arrival:
            new.arrival.begin()
        report = copy_ledger(old.ledger, new.ledger, told=progress)
        made = 0
        if isinstance(old.index.vectors, KeptVectors):
            made = copy_vectors(old.index.vectors, new.index.vectors, told=progress)
        if new.arrival:
            new.arrival.end()
    return MoveReport(head=report.head, counts=report.counts, vectors=made)


def _check_places(source: Address, target: Address) -> None:
    for place in (source, target):
        if place.in_memory:
            raise InvalidInput(
                "A space in memory cannot be moved: it ends with its process.", hint="Name a file or a database."
            )
    same = source.url == target.url
    if source.file and target.file and target.file.exists():
        same = same or (source.file.exists() and source.file.samefile(target.file))
    if same:
        raise InvalidInput(f"{source} is the space itself.", hint="Name another place to move it to.")
