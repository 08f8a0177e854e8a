"""Nodes tied to the sources they stand for: settled at the end of a reading, of all that is there then."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from treering.core.canonical import canonical_json, digest
from treering.core.errors import NotFound
from treering.core.filters import And, Compare
from treering.core.objects import Node
from treering.core.patch import AddLink, Link, Operation, Receipt, RemoveLink, Transition
from treering.core.policy import needs_review
from treering.ports.adapter import Ground, Surveyed
from treering.ports.ledger import Ledger, Selection
from treering.tools.ingest_batch import BatchWriter
from treering.tools.ingest_known import node_key
from treering.tools.retrying import retry_on_conflict
from treering.tools.submission import new_patch

_MOST_OPERATIONS = 500


def settle_terrain(writer: BatchWriter, surveyed: Surveyed, *, changed: bool) -> list[Receipt]:
    """Tie nodes to their sources, and archive those that stand for nothing any more.

    Looks no further where nothing `changed` and the root is tied to its node: then all of it was settled before.
    """
    if not changed and _is_settled(writer, surveyed):
        return []
    ground = surveyed.survey()
    return retry_on_conflict(lambda: _settle(writer, surveyed.origin, ground))


def _is_settled(writer: BatchWriter, surveyed: Surveyed) -> bool:
    node, root = writer.known_sources.node(surveyed.whole), writer.known_sources.source(surveyed.origin)
    if node is None or root is None:
        return True  # nothing was read that could be tied
    return any(_ties(link, node.id) and link.source == root.id for link in writer.engine.ledger.links(node.id))


def _settle(writer: BatchWriter, origin: str, ground: Ground) -> list[Receipt]:
    ledger = writer.engine.ledger
    states = ledger.sources(scope=writer.scope, root=origin)
    live = {name: state.id for name, state in states.items() if state.status != "archived"}
    terrain = _Terrain(ledger, writer.scope, {**ground.ties, ground.whole: [origin]}, live, frozenset(live.values()))
    receipts = []
    everything = terrain.operations(ground)
    for start in range(0, len(everything), _MOST_OPERATIONS):
        operations = everything[start : start + _MOST_OPERATIONS]
        patch = new_patch(writer.engine, operations, author=writer.author, reason=writer.reason).value
        if needs_review(patch, ledger.policy):
            ledger.propose(patch, idempotency_key=_key(operations))
        else:
            receipts.append(ledger.commit(patch))
    return receipts


def _key(operations: Sequence[Operation]) -> str:
    """Return a key by which the same proposal is made once."""
    return f"ties {digest(canonical_json([one.model_dump(mode='json') for one in operations]))}"


@dataclass(frozen=True, slots=True)
class _Terrain:
    """What is to be tied to what, against what the ledger holds."""

    ledger: Ledger
    scope: str
    ties: Mapping[str, Sequence[str]]
    live: Mapping[str, str]
    """Ids of the root's sources that are not archived, by origin."""
    ids: frozenset[str]

    def operations(self, ground: Ground) -> list[Operation]:
        """Return what is still to be done."""
        where = And((Compare("scope", "eq", self.scope), Compare("status", "eq", "active")))
        nodes = self.ledger.select(Selection(scope=self.scope, types=("node",), where=where))
        return [one for node in nodes if isinstance(node, Node) for one in self._of(node, ground)]

    def _of(self, node: Node, ground: Ground) -> Iterator[Operation]:
        key = node_key(node)
        if key not in self.ties and not node.slug.startswith(ground.prefix):
            return
        tied = {link.source: link for link in self.ledger.links(node.id) if _ties(link, node.id)}
        wanted = {self.live[origin] for origin in self.ties.get(key, ()) if origin in self.live}
        for source in sorted(wanted - tied.keys()):
            yield AddLink(link=Link(type="about", source=source, target=node.id))
        moved = [link for source, link in sorted(tied.items()) if source in self.ids - wanted]
        for link in moved:
            if self._is_ours(link):
                yield RemoveLink(link=Link(type="about", source=link.source, target=link.target))
        present = ground.present.get(node.kind)
        if present is not None and node.slug not in present and self._is_left(node, tied):
            yield Transition(id=node.id, expected_revision=node.revision, to="archived")

    def _is_left(self, node: Node, tied: Mapping[str, Link]) -> bool:
        """Tell whether an adapter made the node, and no source of another root stands for it."""
        others = self.ledger.heads(tied.keys() - self.ids).values()
        return node.origin_channel == "adapter" and all(head.status == "archived" for head in others)

    def _is_ours(self, link: Link) -> bool:
        """Tell whether an adapter made the link: what a person or an agent tied stays."""
        try:
            return self.ledger.patch(link.patch_id).source.channel == "adapter"
        except NotFound:
            return False


def _ties(link: Link, node: str) -> bool:
    return link.type == "about" and link.target == node and link.source.startswith("src:")
