"""Links of code for `related`: importers, callers, users and tests of a file or symbol; its imports and calls."""

from collections.abc import Collection, Iterable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from treering.core.evidence import Lines, Segment, place_in
from treering.extensions.code.links.places import line_of
from treering.extensions.code.links.targets import CodeTarget, targets_of, uses_in
from treering.extensions.code.links.users import CodeSubject, CodeUser, users_of
from treering.ports.ledger import Ledger, ObjectRequest, ObjectsFound
from treering.ports.passages import PassagesFound, Reach
from treering.retrieval.index.code_names import defined_in
from treering.retrieval.index.code_places import file_of
from treering.retrieval.index.passages import passages_of
from treering.retrieval.index.rounds import Steps, run_together
from treering.verbs.envelope import Call
from treering.verbs.query.code_links import CodeNeighbour, CodeRelation, CodeStart, Direction

_MAX_THOROUGH = 4
"""With at most this many files or symbols, links through other modules are followed, too."""
_MAX_LINKS_OF_A_KIND = 20
"""Links shown of one relation and direction."""

_IN_WORDS: dict[tuple[str, str], str] = {
    ("imports", "in"): "imported by",
    ("calls", "in"): "called by",
    ("uses", "in"): "used by",
    ("tests", "in"): "tested by",
    ("imports", "out"): "imports",
    ("calls", "out"): "calls",
    ("uses", "out"): "uses",
    ("changes_with", "any"): "changes together with",
}
_ORDER = {key: at for at, key in enumerate(_IN_WORDS)}


def code_links(call: Call, starts: Sequence[CodeStart], reach: Reach, *, direction: Direction) -> list[CodeNeighbour]:
    """Return the links of some places, the nearest first, without links among them."""
    inside = {start.source.id for start in starts if not start.segments}
    links = _users(call, starts, reach, inside) if direction != "out" else []
    return [*links, *(_targets(call, starts, reach, inside) if direction != "in" else [])]


def bounded_links(links: Iterable[CodeNeighbour]) -> tuple[tuple[CodeNeighbour, ...], int]:
    """Return the first links of each relation and direction, in a fixed order, and the number of others."""
    shown: list[CodeNeighbour] = []
    counts: dict[tuple[str, str], int] = {}
    left_out = 0
    for one in links:
        kind = (one.relation, one.direction)
        counts[kind] = counts.get(kind, 0) + 1
        if counts[kind] <= _MAX_LINKS_OF_A_KIND:
            shown.append(one)
        else:
            left_out += 1
    return tuple(sorted(shown, key=lambda one: _ORDER[one.relation, one.direction])), left_out


def relation_in_words(relation: str, direction: str) -> str:
    """Return a relation in words, such as `called by`."""
    return _IN_WORDS[relation, direction]


def subject_of(start: CodeStart) -> CodeSubject | None:
    """Return the subject of a start; `None` if its source is not code."""
    placed = file_of(start.source)
    if placed is None:
        return None
    file, root = placed
    whole = not start.segments
    passages = [one for one in passages_of(start.source) if whole or one.part in start.segments]
    names = dict.fromkeys(name for one in passages for name in defined_in(one))
    # The users of a whole file use its types; its methods are searched only if their type is in another file.
    top = (name for name in names if not whole or name.rpartition(".")[0] not in names)
    return CodeSubject(file, root, start.source.id, start.names or tuple(top), whole)


def _users(call: Call, starts: Sequence[CodeStart], reach: Reach, inside: set[str]) -> list[CodeNeighbour]:
    subjects = list(filter(None, map(subject_of, starts)))
    searches = [users_of(subject, reach, thorough=len(subjects) <= _MAX_THOROUGH) for subject in subjects]
    results: list[list[CodeUser]] = run_code_searches(call, searches)
    grouped: dict[tuple[CodeRelation, str, str], list[CodeUser]] = {}
    for user in (user for users in results for user in users if user.place.head.object_id not in inside):
        relation: CodeRelation = "tests" if user.place.is_test else user.how
        # The imports of one file are one link, and so are its tests.
        symbol = user.place.head.heading if relation in ("calls", "uses") else ""
        grouped.setdefault((relation, user.place.head.object_id, symbol), []).append(user)
    return [_of_user(relation, users_here(call, users)) for (relation, _, _), users in grouped.items()]


def users_here(call: Call, users: Sequence[CodeUser]) -> Sequence[CodeUser]:
    """Return users with the lines that they have in the caller's work tree."""
    tree = call.tree
    if tree is None:
        return users
    return [replace(user, segment=tree.segment_here(user.place.head.origin, user.segment)) for user in users]


def run_code_searches(call: Call, searches: Sequence[Steps[Any]]) -> list[Any]:
    """Run searches for links of code among the files of the requested tree."""
    ledger = call.engine.ledger
    only = partial(_standing_passages, ledger) if call.tree else None
    return run_together(searches, index=call.engine.index, ledger=ledger, only=only)


def _standing_passages(ledger: Ledger, found: Sequence[PassagesFound]) -> list[PassagesFound]:
    """Limit passages found by names of code to the tree of the ledger of a call.

    A name then means something in the files of the tree only. The name of a whole file is found by the first of its
    passages, which may be of another branch: it stays if no other passage of the file has the name.
    """
    heads = [head for one in found for head in one.heads.values()]
    if not heads:
        return list(found)
    request = ObjectRequest(
        heads=tuple({head.object_id for head in heads}),
        segments=tuple({(head.object_id, head.part) for head in heads if head.part}),
    )
    (read,) = ledger.read([request])
    return [_only_standing(one, read) for one in found]


def _only_standing(found: PassagesFound, read: ObjectsFound) -> PassagesFound:
    heads = {key: head for key, head in found.heads.items() if head.object_id in read.heads}
    current = {key for key, head in heads.items() if not head.part or (head.object_id, head.part) in read.segments}
    named: dict[str, list[int]] = {}
    for name, keys in found.named.items():
        there = {heads[key].object_id for key in keys if key in current}
        named[name] = [key for key in keys if key in current or (key in heads and heads[key].object_id not in there)]
    return replace(found, heads=heads, named=named)


def _of_user(relation: CodeRelation, found: Sequence[CodeUser]) -> CodeNeighbour:
    used = [user for user in found if user.how != "imports"]
    users = used or found
    first = users[0]
    head = first.place.head
    names = dict.fromkeys(user.name for user in users if user.name.strip("*"))
    words = relation_in_words(relation, "in")
    return CodeNeighbour(
        id=head.object_id,
        segment_id=head.part,
        title=head.title,
        symbol="" if first.how == "imports" else _symbol_at(first),
        relation=relation,
        direction="in",
        told=words if first.sure else f"perhaps {words}",
        sure=first.sure,
        of=", ".join(names),
        place=_cited(first.segment, first.line),
        lines=tuple(sorted({line for user in used for line in user.lines})),
        more=len({user.place.head.key for user in found}) - 1,
    )


def _targets(call: Call, starts: Sequence[CodeStart], reach: Reach, inside: set[str]) -> list[CodeNeighbour]:
    searches = []
    for start in starts:
        placed = file_of(start.source)
        if placed:
            uses = uses_in(start.source, start.segments or None)
            searches.append((start, targets_of(*placed, uses, reach)))
    results: list[list[CodeTarget]] = run_code_searches(call, [search for _, search in searches])
    chosen: dict[tuple[str, str, str], CodeTarget] = {}
    for (start, _), targets in zip(searches, results, strict=True):
        own = {(start.source.id, part) for part in start.segments}
        for target in targets:
            head = target.place.head
            if head.object_id not in inside and (head.object_id, head.part) not in own:
                name = "" if target.how == "imports" else target.name
                chosen.setdefault((target.how, head.object_id, name), target)
    for how, identity, name in list(chosen):
        if how == "uses" and ("calls", identity, name) in chosen:
            del chosen[how, identity, name]
    segments = _read(call, chosen.values())
    return [
        _of_target(target, name, segments)
        for (how, _, name), target in chosen.items()
        if how == "imports" or (target.place.head.object_id, target.place.head.part) in segments
    ]


def _read(call: Call, targets: Collection[CodeTarget]) -> dict[tuple[str, str], Segment]:
    places = dict.fromkeys((target.place.head.object_id, target.place.head.part) for target in targets)
    if not places:
        return {}
    (read,) = call.engine.ledger.read([ObjectRequest(segments=tuple(places))])
    if call.tree is None:
        return dict(read.segments)
    origins = {target.place.head.object_id: target.place.head.origin for target in targets}
    return {place: call.tree.segment_here(origins[place[0]], one) for place, one in read.segments.items()}


def _of_target(target: CodeTarget, name: str, segments: dict[tuple[str, str], Segment]) -> CodeNeighbour:
    head = target.place.head
    segment = segments.get((head.object_id, head.part))
    # A module is cited as a whole, a definition by its line.
    line = line_of(segment, name.rpartition(".")[2]) if segment and name else None
    return CodeNeighbour(
        id=head.object_id,
        segment_id=head.part,
        title=head.title,
        symbol=name,
        relation=target.how,
        direction="out",
        told=relation_in_words(target.how, "out"),
        place=_cited(segment, line) if name else head.title,
    )


def _symbol_at(user: CodeUser) -> str:
    """Return the name of the definition that contains a use; empty if it is only the name of its file."""
    locator, heading = user.segment.locator, user.place.head.heading
    if isinstance(locator, Lines) and user.line is not None:
        at = user.line - locator.start + 1
        inside = [one.name for one in user.segment.definitions if one.first <= at <= one.last]
        if inside:
            return inside[-1]
    return "" if user.place.file.path.rpartition("/")[2] == heading else heading


def _cited(segment: Segment | None, line: int | None) -> str:
    if segment is None:
        return ""
    locator = segment.locator
    if isinstance(locator, Lines) and line is not None:
        locator = locator.model_copy(update={"start": line, "end": line})
    return place_in(locator, "")
