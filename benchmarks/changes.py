"""What a document more and a document less cost."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial

from benchmarks.costs import Cost, cost_of, milliseconds, typical, wall_note
from benchmarks.figures import Figure, at_most
from benchmarks.synthetic import Document, StandIn
from treering import Space
from treering.core.patch import Transition
from treering.system.machine import SystemClock
from treering.testing.builders import Builder

DOCUMENTS = 24
"""So many documents are added and archived."""


@dataclass(frozen=True, slots=True)
class Changes:
    """What adding a document of one passage, archiving one and erasing one cost at one size."""

    size: int
    add: Cost
    archive: Cost
    erase: Cost

    def figures(self, *, held: bool) -> Iterator[Figure]:
        """Return them as figures, held against the targets or not."""
        target = at_most(10) if held else None
        for name, cost in (
            ("add a document besides encoding", self.add),
            ("archive a document", self.archive),
        ):
            yield Figure(f"{self.size:,}: {name}", milliseconds(cost.cpu), "ms CPU", target, wall_note(cost))
        yield Figure(
            f"{self.size:,}: erase a document", milliseconds(self.erase.cpu), "ms CPU", None, wall_note(self.erase)
        )


def changing(space: Space, embedder: StandIn, size: int, more: Sequence[Document]) -> Changes:
    """Add documents of one passage one by one, with their vectors; archive them again; erase one."""
    ids: list[str] = []
    add = typical([_besides_encoding(embedder, partial(_add, space, document, ids)) for document in more][1:])
    archive = typical([cost_of(partial(_archive, space, identity)) for identity in ids][1:])
    person = space.with_actor("benchmark", channel="user")  # an agent may not erase
    erase = cost_of(partial(person.erase, ids[:1]))
    return Changes(size, add, archive, erase)


def ratios(small: Changes, large: Changes) -> Iterator[Figure]:
    """Compare two sizes: what changes should cost the same however much there is."""
    sizes = f"{large.size:,} against {small.size:,}"
    yield Figure(f"add a document, {sizes}", large.add.cpu / small.add.cpu, "times", at_most(1.5))
    yield Figure(f"archive a document, {sizes}", large.archive.cpu / small.archive.cpu, "times", at_most(1.5))


def _besides_encoding(embedder: StandIn, work: Callable[[], object]) -> Cost:
    before = embedder.spent
    cost = cost_of(work)
    spent = embedder.spent - before
    return Cost(cost.wall - spent, cost.cpu - spent)


def _add(space: Space, document: Document, ids: list[str]) -> None:
    text = document.passages[0]
    item = {"kind": "note", "origin": f"note/{text[:40]}", "title": document.title, "text": text}
    report = space.ingest("source", input={"items": [item]}, options={"wait": True})
    ids += [identity for identity in report.ids if identity.startswith("src:")]


def _archive(space: Space, identity: str) -> None:
    build = Builder(SystemClock())
    space.engine.ledger.commit(build.patch(Transition(id=identity, expected_revision=1, to="archived")))
