"""Known sources, nodes and knowledge during a reading, and duplicate sources."""

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain

from treering.core.cited_lines import refs_to_lines
from treering.core.errors import Corrupt, NotFound
from treering.core.evidence import EvidenceRef, Segment, Turn, united
from treering.core.filters import And, Compare, Filter
from treering.core.objects import Knowledge, Node, Object, Source
from treering.core.patch import Transition
from treering.core.policy import CURRENT
from treering.ports.adapter import AlreadyRead, KnownRepository, SegmentDraft, SourceDraft
from treering.ports.ledger import Head, Ledger, Selection, SourceState


class KnownSources:
    """The sources, nodes and knowledge of one scope. With a `root`, its sources are read at once."""

    def __init__(self, ledger: Ledger, *, scope: str, root: str | None = None) -> None:
        self._ledger = ledger
        self._scope = scope
        self._root = root
        self._roots = [root] if root is not None else []
        self._archived: dict[str, str] = {}
        self._sources: dict[str, SourceState | None] = dict(self.below(root)) if root is not None else {}
        self._unsure: set[str] = set()
        self._nodes: dict[str, Node] | None = None
        self._departed: dict[str, Node] | None = None
        self._stale: dict[str, list[Knowledge]] | None = None

    def known(self) -> AlreadyRead:
        """Return the stored state for an adapter: fingerprints, and the commit read last."""
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
        """Read together the sources that will be requested one by one."""
        missing = [one for one in dict.fromkeys(origins) if one not in self._sources and not self._covers(one)]
        if missing:
            states = self._ledger.sources_at(scope=self._scope, origins=missing)
            self._sources |= {origin: _unless_archived(states.get(origin)) for origin in missing}

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

    def removed_segment(self, ref: EvidenceRef) -> Segment | None:
        """Return a cited segment that its source no longer contains, or `None` if it was erased."""
        try:
            return self._ledger.segment(ref.source_id, ref.segment_id)
        except NotFound:
            return None

    def head(self, source_id: str) -> Head | None:
        """Return the head of a source, or `None` if it was erased."""
        return self._ledger.heads([source_id]).get(source_id)

    def citing(self, source_id: str) -> list[Knowledge]:
        """Return the knowledge that cites a source as evidence, whatever its status."""
        items = map(self._ledger.get, self._ledger.dependents(source_id))
        return [item for item in items if isinstance(item, Knowledge)]

    def node(self, key: str) -> Node | None:
        """Return the active node with a `kind:slug`."""
        if self._nodes is None:
            nodes = self._select("node", Compare("status", "eq", "active"))
            self._nodes = {node_key(item): item for item in nodes if isinstance(item, Node)}
        return self._nodes.get(key)

    def departed_node(self, key: str) -> Node | None:
        """Return the newest archived or merged node with a `kind:slug`."""
        if self._departed is None:
            nodes = self._select("node", Compare("status", "in", ("archived", "merged")))
            self._departed = {node_key(item): item for item in nodes if isinstance(item, Node)}
        return self._departed.get(key)

    def was_archived_by_adapter(self, node: Node) -> bool:
        """Return whether a node was archived by an adapter with its subject, and not by a decision."""
        events = [
            event for event in self._ledger.events_of(node.id) if (event.after or {}).get("status") == node.status
        ]
        return bool(events) and events[-1].channel == "adapter"

    def is_untouched(self, node: Node) -> bool:
        """Return whether only adapters ever wrote the node."""
        return all(event.channel == "adapter" for event in self._ledger.events_of(node.id))

    def stale(self, claim: Knowledge) -> Sequence[Knowledge]:
        """Return the stale knowledge with the same content that was extracted from sources."""
        if self._stale is None:
            self._stale = {}
            self._note_stale(self._select("knowledge", Compare("status", "eq", "stale")))
        return self._stale.get(claim.duplicate_key(), ()) if self._stale else ()

    def was_rejected(self, item: Knowledge) -> bool:
        """Return whether knowledge was superseded or archived by a decision, and not because it lost its evidence."""
        before = [revision.status for revision in self._ledger.history(item.id) if revision.status != item.status]
        return item.status == "superseded" or (item.status == "archived" and before[-1:] != ["stale"])

    def settle(self, *, origins: Iterable[str], nodes: Iterable[Node] | None, staled: Iterable[str]) -> None:
        """Update the cache after a commit; `nodes` are the created ones, `None` if nodes changed otherwise."""
        self._unsure.update(origins)
        if nodes is None:
            self._nodes = self._departed = None
        elif self._nodes is not None:
            self._nodes |= {node_key(node): node for node in nodes}
        if self._stale is not None:
            self._note_stale(map(self._ledger.get, staled))

    def doubt(self, origins: Iterable[str]) -> None:
        """Invalidate the cache after a conflict with another writer."""
        self._unsure.update(origins)
        self._nodes = self._departed = None
        self._stale = None

    def _covers(self, origin: str) -> bool:
        return any(origin == root or origin.startswith((f"{root}#", f"{root}/")) for root in self._roots)

    def _also_below(self, root: str) -> Mapping[str, str]:
        """Return the fingerprints at and below another root, which is read at once."""
        states = self.below(root)
        self._sources |= {origin: state for origin, state in states.items() if origin not in self._sources}
        self._roots.append(root)
        return _fingerprints(states)

    def _repositories(self) -> Sequence[KnownRepository]:
        where = And((Compare("kind", "eq", "repo"), Compare("status", "ne", "archived")))
        sources = self._select("source", where)
        return [KnownRepository(one.origin, one.title, one.payload) for one in sources if isinstance(one, Source)]

    def below(self, root: str) -> dict[str, SourceState]:
        """Return the sources at and below a root that are not archived, by origin."""
        sources = self._ledger.sources(scope=self._scope, root=root)
        self._archived |= {origin: state.id for origin, state in sources.items() if state.status == "archived"}
        return {origin: state for origin, state in sources.items() if _unless_archived(state)}

    def archived(self, origin: str) -> str | None:
        """Return the id of an archived source with this origin, if one was seen."""
        return self._archived.get(origin)

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
    """Return the key by which drafts refer to a node."""
    return f"{node.kind}:{node.slug}"


def is_live(item: Knowledge) -> bool:
    """Return whether knowledge may be presented as current."""
    return item.status in CURRENT["knowledge"]


def is_undated(item: Knowledge) -> bool:
    """Return whether knowledge states no time of validity, as drafts never do."""
    return item.valid_from is None and item.valid_until is None


def _may_be_restated(item: Knowledge) -> bool:
    # Knowledge from a person or an agent is not replaced because a file states the same again.
    drawn_from_files = item.memory_source in {"system_generated", "imported"}
    return item.status == "stale" and drawn_from_files and is_undated(item)


@dataclass(frozen=True, slots=True)
class DuplicateSources:
    """The sources of one item. `kept` remains; `before` is its origin until now.

    `folded` are archived in its favor. `standing` stay unchanged, because they are cited by knowledge that ingest may
    not change.
    """

    kept: SourceState
    before: str
    folded: tuple[SourceState, ...] = ()
    standing: tuple[str, ...] = ()

    def archiving(self) -> list[Transition]:
        """Return the operations that archive the folded sources."""
        return [Transition(id=one.id, expected_revision=one.revision, to="archived") for one in self.folded]

    def note(self) -> str:
        """Return a note about remaining other sources of the same item; empty if there are none."""
        if not self.standing:
            return ""
        return (
            f"the same content is also stored as {', '.join(self.standing)}, which is cited by knowledge: "
            "see lint repair"
        )


def duplicates_of(
    origin: str, earlier: Sequence[str], known_sources: KnownSources, *, is_moved: bool = False
) -> DuplicateSources | None:
    """Choose the source that remains as `origin` among those with it or an earlier origin; `None` if there are none.

    Sources cited by knowledge are preferred, because ingest may only move the evidence of candidates. Knowledge that
    cites several of them does not count: it has evidence in the one that remains. If the file `is_moved`, no other
    one stays: knowledge that cites them is reactivated if the file has its lines.
    """
    states = {name: known_sources.source(name) for name in dict.fromkeys((origin, *earlier))}
    existing = {name: state for name, state in states.items() if state is not None}
    if not existing:
        return None
    cited = _cited_alone(existing, known_sources) if len(existing) > 1 else []
    remaining = (cited or list(existing))[0]
    cited = [] if is_moved else cited
    return DuplicateSources(
        kept=existing[remaining],
        before=next((name for name in (remaining, *existing) if name != origin), ""),
        folded=tuple(state for name, state in existing.items() if name != remaining and name not in cited),
        standing=tuple(name for name in cited if name != remaining),
    )


def repointed(
    refs: Sequence[EvidenceRef], folded: Source, kept: str, segments: Sequence[Segment]
) -> tuple[EvidenceRef, ...]:
    """Point evidence in a folded source to the same text in the segments of the remaining one, `kept`.

    Evidence whose text is not there stays in the folded source.
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
            moved.append(ref.moved(place, source_id=kept) if place else ref)
    return united(moved)


def _cited_alone(existing: Mapping[str, SourceState], known_sources: KnownSources) -> list[str]:
    """Return the names of the sources that are the only ones of these cited by some knowledge."""
    citing = {
        name: {one.id for one in known_sources.citing(state.id) if is_live(one) and one.status != "candidate"}
        for name, state in existing.items()
    }
    number = Counter(chain.from_iterable(citing.values()))
    return [name for name, ids in citing.items() if any(number[one] == 1 for one in ids)]


def _places(segments: Sequence[Segment]) -> Mapping[str, str]:
    return {part.excerpt: part.segment_id for part in reversed(segments)}


def _holder(words: str, there: Mapping[str, str], segments: Sequence[Segment]) -> str | None:
    whole = there.get(words)
    return whole or next((part.segment_id for part in segments if words in part.excerpt), None)


AS_OF = "as_of"
"""Metadata of an exported conversation: the time of the export, in the form of `core.canonical`."""
SINCE = "since"
"""Metadata of a conversation that was exported in part: the time at which that part begins, in the same form."""
_KINDS = frozenset({"conversation", "meeting_record"})


def is_dated(draft: SourceDraft) -> bool:
    """Return whether a draft is a conversation with the time of its export."""
    return draft.kind in _KINDS and bool(_time(draft, AS_OF))


def reason_to_skip(stored: Source, draft: SourceDraft) -> str:
    """Return why the stored conversation is not updated; empty unless the new export is older."""
    if "" < _time(draft, AS_OF) < _time(stored, AS_OF):
        return "it is older than the stored export"
    return ""


def divergence(stored: Sequence[Segment], drafts: Sequence[SegmentDraft], *, gone: Collection[str]) -> str:
    """Return a note about the turn at which a new export differs from the stored one; empty if it only continues it.

    `gone` are the ids of segments that are nowhere in the new one.
    """
    chains = {place.turn: place.chain for draft in drafts if isinstance(place := draft.locator, Turn)}
    before = {place.turn: place.chain for segment in stored if isinstance(place := segment.locator, Turn)}
    parted = [turn for turn, chain in before.items() if chain and chains.get(turn) != chain]
    if not parted:
        return ""
    turns = {
        place.turn for segment in stored if segment.segment_id in gone and isinstance(place := segment.locator, Turn)
    }
    return f"diverges at turn {min(parted)}: {len(turns)} turns replaced"


def _time(item: SourceDraft | Source, name: str) -> str:
    value = item.metadata.get(name)
    return value if isinstance(value, str) else ""
