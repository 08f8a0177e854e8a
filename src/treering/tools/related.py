"""`query` in mode `related`: the objects around one, by links and by references in fields."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from pydantic import Field

from treering.core.patch import LinkType
from treering.core.references import named_references
from treering.ports.ledger import Altered, AsOf, ObjectRequest
from treering.tools.envelope import AskingInput, Call, Mode, Report, Value
from treering.tools.flagging import flagged
from treering.tools.reading import ReadOptions, altered_warnings
from treering.tools.referring import read_referring
from treering.tools.rights import READS
from treering.tools.standing import standing


class RelatedInput(AskingInput):
    """Where to start, which relations to follow, how far."""

    TEXT = "id"

    id: str = Field(min_length=1, description="The id to start from.")
    types: tuple[LinkType | Literal["refers_to"], ...] = Field(
        default=(), description="Link types, or `refers_to` for fields; empty: all."
    )
    direction: Literal["any", "out", "in"] = "any"
    depth: int = Field(default=1, ge=1, le=5)


class Neighbour(Value):
    """An object that was reached, by which relation, from where."""

    id: str
    type: str
    kind: str
    status: str
    title: str
    relation: str
    fields: tuple[str, ...] = ()
    """Where the relation is `refers_to`: the fields in which one of the two names the other."""
    direction: Literal["out", "in"]
    via: str
    depth: int
    current: bool = True
    """Whether it is how things stand."""


class RelatedReport(Report):
    """Neighbours, nearest first."""

    neighbours: tuple[Neighbour, ...]


@dataclass(frozen=True, slots=True)
class _Edge:
    """A step of the walk, from an object that was reached to another one."""

    via: str
    to: str
    relation: str
    direction: Literal["out", "in"]
    fields: tuple[str, ...] = ()


def related(call: Call, given: RelatedInput, options: ReadOptions) -> RelatedReport:
    """Walk the links and references around an object, breadth first."""
    ledger, moment = call.engine.ledger, options.moment()
    start = ledger.get(given.id, as_of=moment)
    altered: Altered = {}
    seen = {start.id}
    frontier, found = [start.id], list[Neighbour]()
    for depth in range(1, given.depth + 1):
        edges = _edges(call, frontier, given, moment, altered)
        fresh = {edge.to: edge for edge in reversed(edges) if edge.to not in seen}
        heads = ledger.heads(fresh, as_of=moment)
        current = standing(call, heads.values(), moment)
        for identity, edge in fresh.items():
            head = heads.get(identity)
            if head:
                found.append(
                    Neighbour(
                        id=identity,
                        type=head.type,
                        kind=head.kind,
                        status=head.status,
                        title=head.title,
                        relation=edge.relation,
                        fields=edge.fields,
                        direction=edge.direction,
                        via=edge.via,
                        depth=depth,
                        current=identity in current,
                    )
                )
        seen |= fresh.keys()
        # The walk ends where the read's sight ends: what lies behind something hidden would tell of it.
        frontier = sorted(heads)
    return RelatedReport(
        verb="query",
        mode="related",
        scope=call.scope,
        status="ok" if found else "empty",
        warnings=(*flagged((one.id, one.title) for one in found), *altered_warnings(altered)),
        ids=tuple(neighbour.id for neighbour in found),
        neighbours=tuple(sorted(found, key=lambda one: (one.depth, one.relation, one.id))),
    )


def _edges(call: Call, frontier: Sequence[str], given: RelatedInput, moment: AsOf, altered: Altered) -> list[_Edge]:
    edges = [edge for identity in frontier for edge in _links(call, identity, given, moment)]
    if not given.types or "refers_to" in given.types:
        if given.direction != "in":
            edges += _references(call, frontier, moment, altered)
        if given.direction != "out":
            edges += _referrers(call, frontier, moment, altered)
    return edges


def _links(call: Call, identity: str, given: RelatedInput, moment: AsOf) -> Iterator[_Edge]:
    for link in call.engine.ledger.links(identity, as_of=moment):
        if not given.types or link.type in given.types:
            if link.source == identity and given.direction != "in":
                yield _Edge(identity, link.target, link.type, "out")
            if link.target == identity and given.direction != "out":
                yield _Edge(identity, link.source, link.type, "in")


def _references(call: Call, frontier: Iterable[str], moment: AsOf, altered: Altered) -> Iterator[_Edge]:
    """Yield the ways to what objects name."""
    (found,) = call.engine.ledger.read([ObjectRequest(objects=tuple(frontier), as_of=moment)])
    altered |= found.altered
    for item in found.objects.values():
        fields: dict[str, list[str]] = {}
        for name, target in named_references(item):
            fields.setdefault(target, []).append(name)
        for target, names in fields.items():
            yield _Edge(item.id, target, "refers_to", "out", tuple(dict.fromkeys(names)))


def _referrers(call: Call, frontier: Iterable[str], moment: AsOf, altered: Altered) -> Iterator[_Edge]:
    """Yield the ways to what names objects."""
    found = read_referring(call.engine.ledger, frontier, as_of=moment)
    altered |= found.altered
    for identity, items in found.items.items():
        for item in items:
            yield _Edge(identity, item.id, "refers_to", "in", found.fields(item, identity))


RELATED = Mode(
    "related",
    "Neighbours of an object by link type, direction and depth.",
    RelatedInput,
    ReadOptions,
    RelatedReport,
    related,
    rights=READS,
)
