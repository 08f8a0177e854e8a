"""Links between the nodes of a root, such as the modules of a repository, and its sources."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import chain

from treering.core.canonical import canonical_json, digest
from treering.core.errors import NotFound
from treering.core.filters import And, Compare
from treering.core.objects import Node
from treering.core.patch import AddLink, Link, Operation, Receipt, RemoveLink, Transition
from treering.ports.adapter import RootNodes, RootRead
from treering.ports.ledger import Ledger, ObjectRequest, Selection
from treering.verbs.crystallize.submission import new_patch
from treering.verbs.engine import Engine, retry_on_conflict
from treering.verbs.ingest.batch import BatchWriter, commit_or_propose
from treering.verbs.ingest.known import node_key
from treering.verbs.scoped_ledger import whole

_MAX_OPERATIONS = 500
_MAX_EVENTS = 10_000
"""Events that are checked for changes of links since the last reading; after more, all links are listed."""
_MIN_SAVED = 1_000
"""Links from which they are saved. Listing fewer takes no longer than reading the saved ones."""


def link_nodes_to_sources(writer: BatchWriter, root_read: RootRead, *, patches: Collection[str]) -> list[Receipt]:
    """Link nodes to their sources, and archive nodes without a subject. `patches`: the patches of this reading.

    If there are none and the root is linked to its node, everything was already linked, so nothing is read.
    """
    if not patches and _is_linked(writer, root_read):
        return []
    nodes = root_read.survey()
    return retry_on_conflict(lambda: _settle(writer, root_read.origin, nodes, patches))


def _is_linked(writer: BatchWriter, root_read: RootRead) -> bool:
    node, root = writer.known_sources.node(root_read.whole), writer.known_sources.source(root_read.origin)
    if node is None or root is None:
        return True  # nothing to link was read
    return any(_ties(link, node.id) and link.source == root.id for link in writer.engine.ledger.links(node.id))


def _settle(writer: BatchWriter, origin: str, nodes: RootNodes, patches: Collection[str]) -> list[Receipt]:
    ledger, begun = writer.engine.ledger, writer.engine.ledger.sequence()
    ties = {**nodes.ties, nodes.whole: [origin]}
    saved = _SavedTies(writer.engine, writer.scope, origin)
    near = saved.changed_origins(ties, patches)
    states = (
        ledger.sources(scope=writer.scope, root=origin)
        if near is None
        else ledger.sources_at(scope=writer.scope, origins=sorted(near))
    )
    live = {name: state.id for name, state in states.items() if state.status != "archived"}
    node_links = _NodeLinks(ledger, writer.scope, origin, ties, live, near is not None, frozenset(live.values()))
    everything = node_links.operations(nodes)
    receipts = []
    for start in range(0, len(everything), _MAX_OPERATIONS):
        operations = everything[start : start + _MAX_OPERATIONS]
        # They contain only ids of stored objects, so there is nothing to redact.
        patch = new_patch(
            writer.engine, operations, author=writer.author, reason=writer.reason, redact_secrets=False
        ).value
        receipt = commit_or_propose(patch, ledger)
        receipts += [receipt] if receipt else []
    if len(receipts) * _MAX_OPERATIONS >= len(everything):  # none was proposed
        now = ledger.sequence()
        saved.write(ties, now if now - begun == len(everything) else begun)
    return receipts


@dataclass(frozen=True, slots=True)
class _SavedTies:
    """The wanted links of the last reading of a root, which were written, in the files prepared for the space."""

    engine: Engine
    scope: str
    root: str

    def changed_origins(self, ties: Mapping[str, Sequence[str]], patches: Collection[str]) -> frozenset[str] | None:
        """Return the origins of sources whose links may differ from `ties`; `None` if they are unknown.

        These are the sources of other nodes than at the last reading, and sources that changed since or have changed
        links. After changes of nodes by others, they are unknown.
        """
        saved = self.engine.ready.read(self._name) if self.engine.ready else None
        if not isinstance(saved, dict):
            return None
        ledger = self.engine.ledger
        events = list(whole(ledger).events(after=saved["sequence"] - 1, limit=_MAX_EVENTS))
        if not events or events[0].hash != saved["head"] or len(events) == _MAX_EVENTS:
            return None  # another space at the same place, or too many events
        del events[0]
        if any(event.target.startswith("node:") and event.patch_id not in patches for event in events):
            return None
        heads = ledger.heads({event.target for event in events if event.target.startswith("src:")})
        before = {key: {self.root + path for path in paths} for key, paths in saved["ties"].items()}
        moved = (before.get(key, set()).symmetric_difference(ties.get(key, ())) for key in before.keys() | ties.keys())
        return frozenset(chain((head.origin for head in heads.values()), *moved))

    def write(self, ties: Mapping[str, Sequence[str]], sequence: int) -> None:
        """Save the links that were written up to a sequence number."""
        if self.engine.ready and sum(map(len, ties.values())) >= _MIN_SAVED:
            paths = {key: [origin.removeprefix(self.root) for origin in origins] for key, origins in ties.items()}
            for last in whole(self.engine.ledger).events(after=sequence - 1, limit=1):
                self.engine.ready.write(self._name, {"sequence": sequence, "head": last.hash, "ties": paths})

    @property
    def _name(self) -> str:
        return f"{digest(canonical_json([self.scope, self.root])).rpartition(':')[2][:32]}.ties"


@dataclass(frozen=True, slots=True)
class _NodeLinks:
    """The wanted links of nodes, compared with the ledger."""

    ledger: Ledger
    scope: str
    root: str
    ties: Mapping[str, Sequence[str]]
    live: Mapping[str, str]
    """Ids of the root's current sources, by origin."""
    is_part: bool
    """Whether `live` has only some of the sources; the links of others are correct."""
    ids: frozenset[str]
    channels: dict[str, str] = field(default_factory=dict)
    """The channels of patches by id; a patch may have written hundreds of links."""

    def operations(self, root: RootNodes) -> list[Operation]:
        """Return the missing operations."""
        where = And((Compare("scope", "eq", self.scope), Compare("status", "eq", "active")))
        nodes = self.ledger.select(Selection(scope=self.scope, types=("node",), where=where))
        links = self._links_of_sources() if self.is_part else None
        return [one for node in nodes if isinstance(node, Node) for one in self._of(node, root, links)]

    def _links_of_sources(self) -> dict[str, list[Link]]:
        links: dict[str, list[Link]] = {}
        (answer,) = self.ledger.read([ObjectRequest(links=tuple(self.live.values()))])
        for link in chain.from_iterable(answer.links.values()):
            links.setdefault(link.target, []).append(link)
        return links

    def _of(self, node: Node, root: RootNodes, links: Mapping[str, Sequence[Link]] | None) -> Iterator[Operation]:
        key = node_key(node)
        if key not in self.ties and not node.slug.startswith(root.prefix):
            return
        listed = self.ledger.links(node.id) if links is None else links.get(node.id, ())
        tied = {link.source: link for link in listed if _ties(link, node.id)}
        wanted = {self.live[origin] for origin in self.ties.get(key, ()) if origin in self.live}
        for source in sorted(wanted - tied.keys()):
            yield AddLink(link=Link(type="about", source=source, target=node.id))
        moved = [link for source, link in sorted(tied.items()) if source in self.ids and source not in wanted]
        for link in moved:
            if self._is_ours(link):
                yield RemoveLink(link=Link(type="about", source=link.source, target=link.target))
        present = root.present.get(node.kind)
        if present is not None and node.slug not in present and self._is_left(node):
            yield Transition(id=node.id, expected_revision=node.revision, to="archived")

    def _is_left(self, node: Node) -> bool:
        """Return whether an adapter created the node, and no source of another root is linked to it."""
        if node.origin_channel != "adapter":
            return False
        heads = self.ledger.heads(link.source for link in self.ledger.links(node.id) if _ties(link, node.id))
        return all(head.status == "archived" or self._is_of_root(head.origin) for head in heads.values())

    def _is_of_root(self, origin: str) -> bool:
        return origin == self.root or origin.startswith((f"{self.root}#", f"{self.root}/"))

    def _is_ours(self, link: Link) -> bool:
        """Return whether an adapter created the link; links by persons and agents are not removed."""
        if link.patch_id not in self.channels:
            with suppress(NotFound):
                self.channels[link.patch_id] = self.ledger.patch(link.patch_id).source.channel
        return self.channels.get(link.patch_id) == "adapter"


def _ties(link: Link, node: str) -> bool:
    return link.type == "about" and link.target == node and link.source.startswith("src:")
