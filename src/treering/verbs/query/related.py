"""`query` in mode `related`: the objects around one, by links and by references in fields."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal

from pydantic import Field

from treering.core.canonical import is_object
from treering.core.evidence import EvidenceRef
from treering.core.objects import Knowledge, Object
from treering.core.patch import LinkType
from treering.core.writing.integrity import fields_by_reference
from treering.ports.ledger import Altered, AsOf, ObjectRequest
from treering.ports.passages import Reach
from treering.verbs.current_objects import current_objects
from treering.verbs.envelope import READS, AskingInput, Call, Mode, Report, Value
from treering.verbs.naming import id_named
from treering.verbs.numbered_places import place_numbered
from treering.verbs.query.code_links import CodeLinks, CodeNeighbour, CodeRelation, CodeStart, code_links
from treering.verbs.query.flagged import flagged
from treering.verbs.query.referring import read_referring
from treering.verbs.read_reports import altered_warnings
from treering.verbs.reading import ReadOptions, moment_of

_NO_HISTORY = "Links of code are known only for the current state; none are shown for an earlier time."


class RelatedInput(AskingInput):
    """The start, the relations to follow, and the depth."""

    TEXT: ClassVar[str] = "id"

    id: str = Field(
        min_length=1,
        description="The start; in code also a path, `path::symbol`, `source_id segment_id`, or a symbol's name.",
    )
    types: tuple[LinkType | Literal["refers_to"] | CodeRelation, ...] = Field(
        default=(),
        description="Link types, `refers_to`, or of code `imports calls uses tests changes_with`; empty: all.",
    )
    direction: Literal["any", "out", "in"] = "any"
    depth: int = Field(default=1, ge=1, le=5)


class Neighbour(Value):
    """An object that was reached, with its relation and start."""

    id: str
    type: str
    kind: str
    status: str
    title: str
    relation: str
    fields: tuple[str, ...] = ()
    """For the relation `refers_to`: the fields with the reference."""
    direction: Literal["out", "in"]
    via: str
    depth: int
    current: bool = True
    """Whether it is current."""
    note: str = ""
    """Why it is not current in the requested tree."""


class RelatedReport(Report):
    """Neighbours, nearest and current first, and linked places in code."""

    neighbours: tuple[Neighbour, ...]
    code: tuple[CodeNeighbour, ...] = ()
    """Current links of a file of code, a part or symbol of one, or a node for some."""
    code_left_out: int = 0
    """How many more such places there are."""


@dataclass(frozen=True, slots=True)
class _Edge:
    """A step of the walk, from an object that was reached to another one."""

    via: str
    to: str
    relation: str
    direction: Literal["out", "in"]
    fields: tuple[str, ...] = ()


def related(call: Call, given: RelatedInput, options: ReadOptions) -> RelatedReport:
    """Walk the links and references around an object, breadth first, and return links of code at its start."""
    moment = moment_of(call, options)
    reach = Reach(call.scope, descend=options.descend)
    finder = code_links()
    item, starts = _start(call, given.id, reach, moment, finder)
    altered: Altered = {}
    neighbours = _neighbours(call, item.id, given, moment, altered)
    citing = _citing(call, starts, [one.id for one in neighbours if one.depth == 1], moment)
    neighbours.sort(key=lambda one: (one.depth, not one.current, one.id not in citing, one.relation, one.id))
    code, left_out = tuple[CodeNeighbour, ...](), 0
    if finder and starts and moment is None:
        code, left_out = finder.links(call, starts, reach, given.types, given.direction)
    unknown = [_NO_HISTORY] if moment is not None and starts else []
    return RelatedReport(
        verb="query",
        mode="related",
        scope=call.scope,
        status="ok" if neighbours or code else "empty",
        warnings=(
            *flagged((one.id, one.title) for one in neighbours),
            *flagged((one.id, (one.title, one.symbol, one.of)) for one in code),
            *altered_warnings(altered),
            *unknown,
        ),
        ids=tuple(dict.fromkeys((*(one.id for one in neighbours), *(one.id for one in code)))),
        neighbours=tuple(neighbours),
        code=code,
        code_left_out=left_out,
    )


def _start(
    call: Call, named: str, reach: Reach, moment: AsOf, finder: CodeLinks | None
) -> tuple[Object, Sequence[CodeStart]]:
    """Return the object to start from, and the places in code. Raises `NotFound` if there is none."""
    given = place_numbered(named, call.engine.places_of).strip()
    starts = finder.starts_named(call, given, reach) if finder and not is_object(given) else ()
    if starts and moment is None:
        return starts[0].source, starts
    item = call.engine.ledger.get(id_named(call.engine, given), as_of=moment)
    return item, finder.starts_at(call, item) if finder else ()


def _citing(call: Call, starts: Sequence[CodeStart], ids: Sequence[str], moment: AsOf) -> frozenset[str]:
    """Return the objects among `ids` that cite lines of the parts or symbols of code to start from."""
    parts = [start for start in starts if start.segments]
    if not (parts and ids):
        return frozenset()
    (read,) = call.engine.ledger.read([ObjectRequest(objects=tuple(ids), as_of=moment)])
    return frozenset(
        item.id
        for item in read.objects.values()
        if isinstance(item, Knowledge) and any(_is_in(ref, start) for ref in item.evidence_refs for start in parts)
    )


def _is_in(ref: EvidenceRef, start: CodeStart) -> bool:
    """Return whether evidence cites lines of a symbol, or of its whole segment."""
    if ref.source_id != start.source.id or ref.segment_id not in start.segments:
        return False
    segment = next((one for one in start.source.segments if one.segment_id == ref.segment_id), None)
    spans = [
        (one.first, one.last)
        for one in (segment.definitions if segment else ())
        if one.name.replace("::", ".") in start.names
    ]
    if ref.lines is None or not spans:
        return True
    return any(ref.lines[0] <= last and first <= ref.lines[1] for first, last in spans)


def _neighbours(call: Call, start: str, given: RelatedInput, moment: AsOf, altered: Altered) -> list[Neighbour]:
    ledger = call.engine.ledger
    seen = {start}
    frontier, neighbours = [start], list[Neighbour]()
    for depth in range(1, given.depth + 1):
        edges = _edges(call, frontier, given, moment, altered)
        fresh = {edge.to: edge for edge in reversed(edges) if edge.to not in seen}
        heads = ledger.heads(fresh, as_of=moment)
        current = current_objects(call, heads.values(), moment)
        for identity, edge in fresh.items():
            head = heads.get(identity)
            if head:
                neighbours.append(
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
                        note=current.note(identity),
                    )
                )
        seen |= fresh.keys()
        # The walk does not pass hidden objects: the objects behind them would reveal them.
        frontier = sorted(heads)
    return neighbours


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
    """Yield the edges to the objects that some objects name."""
    (read,) = call.engine.ledger.read([ObjectRequest(objects=tuple(frontier), as_of=moment)])
    altered |= read.altered
    for item in read.objects.values():
        for target, names in fields_by_reference(item).items():
            yield _Edge(item.id, target, "refers_to", "out", names)


def _referrers(call: Call, frontier: Iterable[str], moment: AsOf, altered: Altered) -> Iterator[_Edge]:
    """Yield the edges to the objects that name some objects."""
    referring = read_referring(call.engine.ledger, frontier, as_of=moment)
    altered |= referring.altered
    for identity, items in referring.items.items():
        for item in items:
            yield _Edge(identity, item.id, "refers_to", "in", referring.fields(item, identity))


RELATED = Mode.of(
    "related", "Neighbours by link type, direction, depth; for code also imports, calls, tests.", related, rights=READS
)
