"""`query` in mode `related`: the objects around one, by links and by references in fields."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from pydantic import Field

from treering.core.ids import is_object
from treering.core.objects import Object
from treering.core.patch import LinkType
from treering.core.references import named_references
from treering.ports.ledger import Altered, AsOf, ObjectRequest
from treering.ports.reach import Reach
from treering.tools.changed_together import changes_with
from treering.tools.code_related import (
    CODE_RELATIONS,
    CodeNeighbour,
    CodeRelation,
    CodeStart,
    bounded_links,
    code_links,
)
from treering.tools.code_starts import starts_at, starts_named
from treering.tools.envelope import AskingInput, Call, Mode, Report, Value
from treering.tools.flagging import flagged
from treering.tools.reading import ReadOptions, altered_warnings
from treering.tools.referring import read_referring
from treering.tools.rights import READS
from treering.tools.standing import standing

_NO_HISTORY = "Links of code are known as they are now; of an earlier time none are told."


class RelatedInput(AskingInput):
    """Where to start, which relations to follow, how far."""

    TEXT = "id"

    id: str = Field(
        min_length=1,
        description="The id to start from; in code also a path, `source_id segment_id`, or the name of a symbol.",
    )
    types: tuple[LinkType | Literal["refers_to"] | CodeRelation, ...] = Field(
        default=(),
        description="Link types, `refers_to` for fields, or links of code: `imports calls uses tests changes_with`; "
        "empty: all.",
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
    """Neighbours, nearest first, and places in code that are linked."""

    neighbours: tuple[Neighbour, ...]
    code: tuple[CodeNeighbour, ...] = ()
    """Of a file of code, a part or a symbol of one, or a node that stands for some: what is linked to it now."""
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
    """Walk the links and references around an object, breadth first, and tell the links of code at its start."""
    moment = options.moment()
    reach = Reach(call.scope, descend=options.descend)
    item, starts = _start(call, given.id, reach, moment)
    altered: Altered = {}
    found = _neighbours(call, item.id, given, moment, altered)
    code, left_out = bounded_links(_code(call, starts, given, reach)) if moment is None else ((), 0)
    unknown = [_NO_HISTORY] if moment is not None and starts else []
    return RelatedReport(
        verb="query",
        mode="related",
        scope=call.scope,
        status="ok" if found or code else "empty",
        warnings=(
            *flagged((one.id, one.title) for one in found),
            *flagged((one.id, (one.title, one.symbol, one.of)) for one in code),
            *altered_warnings(altered),
            *unknown,
        ),
        ids=tuple(dict.fromkeys((*(one.id for one in found), *(one.id for one in code)))),
        neighbours=tuple(sorted(found, key=lambda one: (one.depth, one.relation, one.id))),
        code=code,
        code_left_out=left_out,
    )


def _start(call: Call, named: str, reach: Reach, moment: AsOf) -> tuple[Object, list[CodeStart]]:
    """Return the object to start from, and the places in code. Raises `NotFound` where nothing is called so."""
    starts = [] if is_object(named) else starts_named(call, named, reach)
    if starts and moment is None:
        return starts[0].source, starts
    item = call.engine.ledger.get(named, as_of=moment)
    return item, starts_at(call, item)


def _code(call: Call, starts: Sequence[CodeStart], given: RelatedInput, reach: Reach) -> list[CodeNeighbour]:
    wanted = set(given.types) & set(CODE_RELATIONS) if given.types else set(CODE_RELATIONS)
    if not starts or not wanted:
        return []
    found = code_links(call, starts, reach, direction=given.direction)
    if given.direction == "any" and "changes_with" in wanted:
        found += changes_with(call, [start.source for start in starts])
    return [one for one in found if one.relation in wanted]


def _neighbours(call: Call, start: str, given: RelatedInput, moment: AsOf, altered: Altered) -> list[Neighbour]:
    ledger = call.engine.ledger
    seen = {start}
    frontier, found = [start], list[Neighbour]()
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
    return found


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
    "Neighbours of an object by link type, direction and depth; of code, what imports, calls and tests it.",
    RelatedInput,
    ReadOptions,
    RelatedReport,
    related,
    rights=READS,
)
