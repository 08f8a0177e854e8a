"""What the ledger holds of the things a reading meets, and sources that are the same thing."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

from treering.core.errors import Corrupt
from treering.core.evidence import EvidenceRef, Segment, Turn, united
from treering.core.filters import And, Compare, Filter
from treering.core.objects import Knowledge, Node, Object, Source
from treering.core.patch import Transition
from treering.core.policy import CURRENT
from treering.ports.adapter import AlreadyRead, KnownRepository, SegmentDraft, SourceDraft
from treering.ports.ledger import Ledger, Selection, SourceState
from treering.verbs.ingest.segments import refs_to_lines


class KnownSources:
    """The sources, nodes and knowledge of one scope. With a `root`, its sources are read at once."""

    def __init__(self, ledger: Ledger, *, scope: str, root: str | None = None) -> None:
        self._ledger = ledger
        self._scope = scope
        self._root = root
        self._roots = [root] if root is not None else []
        self._sources: dict[str, SourceState | None] = dict(self.below(root)) if root is not None else {}
        self._unsure: set[str] = set()
        self._nodes: dict[str, Node] | None = None
        self._departed: dict[str, Node] | None = None
        self._stale: dict[str, list[Knowledge]] | None = None

    def known(self) -> AlreadyRead:
        """Tell an adapter what was read before, and at which commit."""
        states = {origin: state for origin, state in self._sources.items() if state}
        root = self.source(self._root) if self._root is not None else None
        commit = self.whole(root.id).payload.get("commit") if root else None
        return AlreadyRead(
            _fingerprints(states), commit if isinstance(commit, str) else None, self._also_below, self._repositories
        )

    def source(self, origin: str) -> SourceState | None:
        """Return the state of the source with this origin that is not archived."""
        if origin in self._unsure or (origin not in self._sources and not self._covers(origin)):
            self._unsure.discard(origin)
            self._sources[origin] = self.below(origin).get(origin)
        return self._sources.get(origin)

    def look_up(self, origins: Iterable[str]) -> None:
        """Read at once what will be asked for one by one."""
        asked = [one for one in dict.fromkeys(origins) if one not in self._sources and not self._covers(one)]
        if asked:
            found = self._ledger.sources_at(scope=self._scope, origins=asked)
            self._sources |= {origin: _unless_archived(found.get(origin)) for origin in asked}

    def whole(self, source_id: str) -> Source:
        """Return a source with its segments."""
        item = self._ledger.get(source_id)
        if isinstance(item, Source):
            return item
        raise Corrupt(
            f"{source_id} is listed as a source but is a {item.type}.",
            hint="Check the space with lint audit.",
            details={"id": source_id},
        )

    def resting_on(self, source_id: str) -> list[Knowledge]:
        """Return the knowledge that names a source as evidence, whatever its status."""
        found = map(self._ledger.get, self._ledger.dependents(source_id))
        return [item for item in found if isinstance(item, Knowledge)]

    def node(self, key: str) -> Node | None:
        """Return the active node with a `kind:slug`."""
        if self._nodes is None:
            found = self._select("node", Compare("status", "eq", "active"))
            self._nodes = {node_key(item): item for item in found if isinstance(item, Node)}
        return self._nodes.get(key)

    def departed_node(self, key: str) -> Node | None:
        """Return the newest node with a `kind:slug` that is active no more: archived, or merged into another."""
        if self._departed is None:
            found = self._select("node", Compare("status", "in", ("archived", "merged")))
            self._departed = {node_key(item): item for item in found if isinstance(item, Node)}
        return self._departed.get(key)

    def was_archived_by_adapter(self, node: Node) -> bool:
        """Tell whether a node was archived with what it stood for, and not because somebody decided so."""
        events = [
            event for event in self._ledger.events_of(node.id) if (event.after or {}).get("status") == node.status
        ]
        return bool(events) and events[-1].channel == "adapter"

    def is_untouched(self, node: Node) -> bool:
        """Tell whether only adapters ever wrote the node."""
        return all(event.channel == "adapter" for event in self._ledger.events_of(node.id))

    def stale(self, claim: Knowledge) -> Sequence[Knowledge]:
        """Return the stale knowledge that says the same and that Treering itself had drawn from a source."""
        if self._stale is None:
            self._stale = {}
            self._note_stale(self._select("knowledge", Compare("status", "eq", "stale")))
        return self._stale.get(claim.duplicate_key(), ()) if self._stale else ()

    def was_turned_down(self, item: Knowledge) -> bool:
        """Tell whether somebody decided against the knowledge, rather than it having lost its evidence."""
        before = [revision.status for revision in self._ledger.history(item.id) if revision.status != item.status]
        return item.status == "superseded" or (item.status == "archived" and before[-1:] != ["stale"])

    def settle(self, *, origins: Iterable[str], nodes: Iterable[Node] | None, staled: Iterable[str]) -> None:
        """Take note of what a commit wrote; `nodes` are those created, `None` where nodes changed otherwise."""
        self._unsure.update(origins)
        if nodes is None:
            self._nodes = self._departed = None
        elif self._nodes is not None:
            self._nodes |= {node_key(node): node for node in nodes}
        if self._stale is not None:
            self._note_stale(map(self._ledger.get, staled))

    def doubt(self, origins: Iterable[str]) -> None:
        """Read again what somebody else changed meanwhile."""
        self._unsure.update(origins)
        self._nodes = self._departed = None
        self._stale = None

    def _covers(self, origin: str) -> bool:
        return any(origin == root or origin.startswith((f"{root}#", f"{root}/")) for root in self._roots)

    def _also_below(self, root: str) -> Mapping[str, str]:
        """Return the fingerprints at and below another root, which is read at once."""
        found = self.below(root)
        self._sources |= {origin: state for origin, state in found.items() if origin not in self._sources}
        self._roots.append(root)
        return _fingerprints(found)

    def _repositories(self) -> Sequence[KnownRepository]:
        where = And((Compare("kind", "eq", "repo"), Compare("status", "ne", "archived")))
        found = self._select("source", where)
        return [KnownRepository(one.origin, one.title, one.payload) for one in found if isinstance(one, Source)]

    def below(self, root: str) -> dict[str, SourceState]:
        """Return the sources at and below a root that are not archived, by origin."""
        found = self._ledger.sources(scope=self._scope, root=root)
        return {origin: state for origin, state in found.items() if _unless_archived(state)}

    def _select(self, kind: str, where: Filter) -> Iterable[Object]:
        here = And((Compare("scope", "eq", self._scope), where))
        return self._ledger.select(Selection(scope=self._scope, types=(kind,), where=here))

    def _note_stale(self, items: Iterable[Object]) -> None:
        for item in items:
            if isinstance(item, Knowledge) and _may_be_restated(item) and self._stale is not None:
                self._stale.setdefault(item.duplicate_key(), []).append(item)


def _unless_archived(state: SourceState | None) -> SourceState | None:
    return state if state and state.status != "archived" else None


def _fingerprints(states: Mapping[str, SourceState]) -> dict[str, str]:
    return {origin: state.fingerprint for origin, state in states.items()}


def node_key(node: Node) -> str:
    """Return the name by which drafts refer to a node."""
    return f"{node.kind}:{node.slug}"


def is_live(item: Knowledge) -> bool:
    """Tell whether the knowledge may be presented as how things stand."""
    return item.status in CURRENT["knowledge"]


def is_undated(item: Knowledge) -> bool:
    """Tell whether the knowledge claims no time of validity, as drafts never do."""
    return item.valid_from is None and item.valid_until is None


def _may_be_restated(item: Knowledge) -> bool:
    # What a person or an agent came to believe is not replaced because a file says the same again.
    drawn_from_files = item.memory_source in {"system_generated", "imported"}
    return item.status == "stale" and drawn_from_files and is_undated(item)


# Sources that are the same thing: which one goes on, and what becomes of the others and of what rests on them.


@dataclass(frozen=True, slots=True)
class DuplicateSources:
    """The sources that one thing is known by. `kept` goes on; it is known by the origin `before` until now.

    `folded` are archived in its favour. `standing` are left as they are: knowledge rests on them that ingest may not
    change.
    """

    kept: SourceState
    before: str
    folded: tuple[SourceState, ...] = ()
    standing: tuple[str, ...] = ()

    def archiving(self) -> list[Transition]:
        """Return the operations that archive what is folded."""
        return [Transition(id=one.id, expected_revision=one.revision, to="archived") for one in self.folded]

    def note(self) -> str:
        """Say which sources of the same thing stand beside it still; empty where none does."""
        if not self.standing:
            return ""
        return (
            f"the same content is also stored as {', '.join(self.standing)}, which is cited by knowledge: "
            "see lint repair"
        )


def duplicates_of(origin: str, earlier: Sequence[str], known_sources: KnownSources) -> DuplicateSources | None:
    """Choose the source that goes on as `origin`, of those known by it or by an earlier origin; `None` without any.

    One that knowledge rests on goes on before others: ingest may move the evidence of candidates alone.
    """
    states = {name: known_sources.source(name) for name in dict.fromkeys((origin, *earlier))}
    found = {name: state for name, state in states.items() if state is not None}
    if not found:
        return None
    held = [name for name, state in found.items() if len(found) > 1 and _is_held(state, known_sources)]
    kept = (held or list(found))[0]
    return DuplicateSources(
        kept=found[kept],
        before=next((name for name in (kept, *found) if name != origin), ""),
        folded=tuple(state for name, state in found.items() if name != kept and name not in held),
        standing=tuple(name for name in held if name != kept),
    )


def repointed(
    refs: Sequence[EvidenceRef], folded: Source, kept: str, segments: Sequence[Segment]
) -> tuple[EvidenceRef, ...]:
    """Point evidence in a source that is folded to where its words stand in the one kept, with these segments.

    What stands there no more keeps its place in the source that is folded.
    """
    before = {part.segment_id: part for part in folded.segments}
    there = _places(segments)
    moved: list[EvidenceRef] = []
    for ref in refs:
        part = before.get(ref.segment_id) if ref.source_id == folded.id else None
        if part is None:
            moved.append(ref)
        elif ref.lines:
            moved += refs_to_lines(ref, part, segments, source_id=kept) or [ref]
        else:
            place = _holder(part.excerpt, there, segments)
            moved.append(EvidenceRef(source_id=kept, segment_id=place, role=ref.role) if place else ref)
    return united(moved)


def _is_held(state: SourceState, known_sources: KnownSources) -> bool:
    return any(is_live(item) and item.status != "candidate" for item in known_sources.resting_on(state.id))


def _places(segments: Sequence[Segment]) -> Mapping[str, str]:
    return {part.excerpt: part.segment_id for part in reversed(segments)}


def _holder(words: str, there: Mapping[str, str], segments: Sequence[Segment]) -> str | None:
    whole = there.get(words)
    return whole or next((part.segment_id for part in segments if words in part.excerpt), None)


# Two exports of one conversation: which of them is kept, and where they differ.


AS_OF = "as_of"
"""Metadata of an exported conversation: the time until which the export reaches, as `core.canonical` writes it."""

SINCE = "since"
"""Metadata of a conversation of which a stretch of time was exported: when that begins, written the same way."""


def is_dated(draft: SourceDraft) -> bool:
    """Tell whether a draft is a conversation with the time until which its export reaches."""
    return draft.kind in _KINDS and bool(_time(draft, AS_OF))


def why_kept(held: Source, draft: SourceDraft) -> str:
    """Say why the conversation that is kept stays as it is; empty unless the new export is an older one."""
    if "" < _time(draft, AS_OF) < _time(held, AS_OF):
        return "it is older than the stored export"
    return ""


def divergence(held: Sequence[Segment], arrived: Sequence[SegmentDraft], *, gone: Collection[str]) -> str:
    """Say at which turn a new export differs from what is kept; empty where it only goes on.

    `gone` are the ids of segments that are nowhere in the new one.
    """
    chains = {place.turn: place.chain for draft in arrived if isinstance(place := draft.locator, Turn)}
    before = {place.turn: place.chain for segment in held if isinstance(place := segment.locator, Turn)}
    parted = [turn for turn, chain in before.items() if chain and chains.get(turn) != chain]
    if not parted:
        return ""
    turns = {
        place.turn for segment in held if segment.segment_id in gone and isinstance(place := segment.locator, Turn)
    }
    return f"diverges at turn {min(parted)}: {len(turns)} turns replaced"


_KINDS = frozenset({"conversation", "meeting_record"})


def _time(item: SourceDraft | Source, name: str) -> str:
    value = item.metadata.get(name)
    return value if isinstance(value, str) else ""
