"""`query` in mode `related`: the objects around one, by links and by references in fields."""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

from pydantic import Field

from treering.core.canonical import is_object
from treering.core.objects import Node, Object, Source
from treering.core.patch import LinkType
from treering.core.writing.integrity import named_references
from treering.ports.ledger import Altered, AsOf, ObjectRequest
from treering.ports.passages import PassageRequest, Reach
from treering.retrieval.index.code_names import CODE_FAMILIES, defined_in, last_name
from treering.retrieval.index.code_places import file_of, is_test_path, root_and_path
from treering.retrieval.index.passages import passages_of
from treering.verbs.current_objects import current_objects
from treering.verbs.envelope import READS, AskingInput, Call, Mode, Report, Value
from treering.verbs.file_names import ids_at_path, modules_called, passages_called, read_sources
from treering.verbs.naming import id_named
from treering.verbs.numbered_places import place_numbered
from treering.verbs.query.code_related import (
    CODE_RELATIONS,
    CodeNeighbour,
    CodeRelation,
    CodeStart,
    bounded_links,
    code_links,
    relation_in_words,
)
from treering.verbs.query.flagged import flagged
from treering.verbs.query.referring import read_referring
from treering.verbs.read_reports import altered_warnings
from treering.verbs.reading import ReadOptions

# Which files change together, as the map of their repository tells.


def changes_with(call: Call, sources: Sequence[Source]) -> list[CodeNeighbour]:
    """Return the files that changed together with some files of one repository, most often first."""
    placed = {path: root for source in sources if (place := root_and_path(source)) for root, path in [place]}
    roots = set(placed.values())
    if len(roots) != 1:
        return []
    root = roots.pop()
    states = call.engine.ledger.sources(scope=sources[0].scope, root=root.removesuffix("#"))
    live = {origin: state.id for origin, state in states.items() if state.status == "active"}
    history = _history(call, live.get(root.removesuffix("#"), ""))
    total = history.get("commits", 0)
    return [
        CodeNeighbour(
            id=live[origin],
            title=path,
            relation="changes_with",
            direction="any",
            told=f"{relation_in_words('changes_with', 'any')} ({count} of the last {total} commits, last on {last})",
            place=path,
        )
        for path, count, last in partners_of(history, placed.keys())
        if (origin := f"{root}{path}") in live
    ]


def _history(call: Call, identity: str) -> Mapping[str, Any]:
    if not identity:
        return {}
    (found,) = call.engine.ledger.read([ObjectRequest(objects=(identity,))])
    item = found.objects.get(identity)
    told: Any = item.payload.get("changed_together") if isinstance(item, Source) else None
    return told if isinstance(told, Mapping) else {}


def partners_of(history: Mapping[str, Any], own: Collection[str]) -> Iterator[tuple[str, int, str]]:
    """Return the paths outside of some that changed together with one of these, each once, with how often and when."""
    paths, seen = history.get("paths", ()), set[str]()
    for one, other, count, last in history.get("pairs", ()):
        ends = paths[one], paths[other]
        for mine, theirs in (ends, ends[::-1]):
            if mine in own and theirs not in own and theirs not in seen:
                seen.add(theirs)
                yield theirs, count, last


# What people name when they ask for links of code: a file by its path, a segment, a symbol, the files of a node.


_MOST_FILES = 30
"""Files of a node, or files with a symbol of one name, that are looked at."""
_MOST_SYMBOLS = 8


def starts_named(call: Call, text: str, reach: Reach) -> list[CodeStart]:
    """Return the places that a text names which is no id of an object: a segment, path, origin, symbol or module."""
    source_id, _, segment_id = text.partition(" ")
    if segment_id and is_object(source_id):
        return [CodeStart(source, frozenset([segment_id.strip()])) for source in read_sources(call, [source_id])]
    heads = passages_called(call, text, reach)
    parts = [head for head in heads if head.part == text]
    if parts:
        return [CodeStart(source, frozenset([text])) for source in read_sources(call, [parts[0].object_id])]
    files = [CodeStart(source) for source in read_sources(call, ids_at_path(heads, text))[:1]]
    symbols = files or _symbols(call, text, reach)
    return symbols or [CodeStart(source) for source in modules_called(call, text, reach)]


def starts_at(call: Call, item: Object) -> list[CodeStart]:
    """Return the files of code that an object is, or that a node stands for."""
    match item:
        case Source():
            return [CodeStart(item)]
        case Node():
            links = call.engine.ledger.links(item.id)
            about = [link.source for link in links if link.type == "about" and link.target == item.id]
            return [CodeStart(source) for source in read_sources(call, about) if file_of(source)][:_MOST_FILES]
        case _:
            return []


def _symbols(call: Call, name: str, reach: Reach) -> list[CodeStart]:
    """Return where a symbol is defined, by its qualified name or the end of one; in code before tests."""
    wanted = name.removesuffix("()").replace("::", ".")
    names = tuple(last_name(family, wanted) for family in CODE_FAMILIES)
    (found,) = call.engine.index.passages.read([PassageRequest((), reach, named=names)])
    ids = dict.fromkeys(head.object_id for head in found.heads.values())
    starts = [start for source in read_sources(call, ids) if (start := start_defining(source, wanted))]
    exact = [start for start in starts if wanted in start.names] or starts
    code = [start for start in exact if not is_test_path(start.source.title)]
    return (code or exact)[:_MOST_SYMBOLS]


def start_defining(source: Source, name: str) -> CodeStart | None:
    """Return the parts of a file that define a symbol, named in full or by its end; `None` if none does."""
    parts, names = set(), dict[str, None]()
    for passage in passages_of(source):
        for defined in defined_in(passage):
            if defined == name or defined.endswith(f".{name}"):
                parts.add(passage.part)
                names[defined] = None
    return CodeStart(source, frozenset(parts), tuple(names)) if parts else None


_NO_HISTORY = "Links of code are known only for the current state; none are shown for an earlier time."


class RelatedInput(AskingInput):
    """The start, the relations to follow, and the depth."""

    TEXT: ClassVar[str] = "id"

    id: str = Field(
        min_length=1,
        description="The start; in code also a path, `source_id segment_id`, or a symbol's name.",
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
    """Neighbours, nearest first, and linked places in code."""

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
    given = place_numbered(named, call.engine.places_of).strip()
    starts = [] if is_object(given) else starts_named(call, given, reach)
    if starts and moment is None:
        return starts[0].source, starts
    item = call.engine.ledger.get(id_named(call.engine, given), as_of=moment)
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
        current = current_objects(call, heads.values(), moment)
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
                        note=current.note(identity),
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
    "Neighbours by link type, direction, depth; for code also imports, calls, tests.",
    RelatedInput,
    ReadOptions,
    RelatedReport,
    related,
    rights=READS,
)
