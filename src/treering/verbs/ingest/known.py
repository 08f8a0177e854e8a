"""What the ledger holds of the things a reading meets, read as far as it is asked for."""

from collections.abc import Iterable, Mapping, Sequence

from treering.core.errors import Corrupt
from treering.core.filters import And, Compare, Filter
from treering.core.lifecycle import CURRENT
from treering.core.objects import Knowledge, Node, Object, Source
from treering.ports.adapter import AlreadyRead, KnownRepository
from treering.ports.ledger import Ledger, Selection, SourceState


class KnownSources:
    """The sources, nodes and knowledge of one scope. With a `root`, its sources are read at once."""

    def __init__(self, ledger: Ledger, *, scope: str, root: str | None = None) -> None:
        self._ledger = ledger
        self._scope = scope
        self._root = root
        self._roots = [root] if root is not None else []
        self._sources: dict[str, SourceState | None] = dict(self._below(root)) if root is not None else {}
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
            self._sources[origin] = self._below(origin).get(origin)
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
            f"{source_id} is listed as a source and is a {item.type}.",
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
        found = self._below(root)
        self._sources |= {origin: state for origin, state in found.items() if origin not in self._sources}
        self._roots.append(root)
        return _fingerprints(found)

    def _repositories(self) -> Sequence[KnownRepository]:
        where = And((Compare("kind", "eq", "repo"), Compare("status", "ne", "archived")))
        found = self._select("source", where)
        return [KnownRepository(one.origin, one.title, one.payload) for one in found if isinstance(one, Source)]

    def _below(self, root: str) -> dict[str, SourceState]:
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
