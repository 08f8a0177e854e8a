"""Memories that later ones replaced: named by the host, stored under the same key, or contradicted by their text."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from treering.core.canonical import canonical_json, digest
from treering.core.filters import And, Compare
from treering.core.objects import Source
from treering.core.scope import ROOT
from treering.extensions.client.items.documents import CONTEXT, PREFIX, is_in_context
from treering.extensions.client.items.owner_memories import replacements
from treering.ports.ledger import Ledger, ObjectRequest, Selection
from treering.verbs.engine import Engine

_KEYED = f"{PREFIX}key/"
_MAX_HIDDEN = 50
"""The newest memories under a key among which the current one is looked up, if the newest one is hidden."""
_MAX_ROUNDS = 20
"""How often replacements of replacements are looked up."""


@dataclass(frozen=True, slots=True)
class Reader:
    """The reader of memories, to whom only visible ones replace others.

    `owns`: whether metadata is of its user or of no user. `context`: the nested context that it reads in.
    """

    owns: Callable[[Mapping[str, Any]], bool] = lambda _: True
    context: str = ""

    def sees(self, source: Source) -> bool:
        """Return whether a memory is active, of its user, and in no other nested context."""
        context = str(source.metadata.get(CONTEXT, ""))
        return source.status == "active" and self.owns(source.metadata) and is_in_context(context, self.context)


@dataclass(frozen=True, slots=True)
class ReplacedMemories:
    """By the id of a memory the current one, at the end of the chain.

    `is_partial`: whether not all memories of an owner were compared yet, so that marks may be missing.
    """

    current: Mapping[str, str]
    is_partial: bool = False


def replaced_memories(engine: Engine, found: Sequence[Source], reader: Reader) -> ReplacedMemories:
    """Return which memories were replaced. It depends on the memories of their owners alone."""
    later: dict[str, str] = {}
    looked_up: set[str] = set()
    sources, is_partial = list(found), False
    for _ in range(_MAX_ROUNDS):
        looked_up.update(one.id for one in sources)
        named = _by_keys(engine.ledger, sources, reader)
        named |= _by_links(engine.ledger, [one.id for one in sources if one.id not in named], reader)
        later = named | later
        compared = replacements(engine, sources, context=reader.context)
        is_partial |= compared.is_partial
        for old, new in compared.items():
            if _current(later, new) != old:  # a link states the reverse
                later.setdefault(old, new)
        new_ids = set(later.values()) - looked_up
        if not new_ids:
            break
        sources = [one for one in _read(engine.ledger, sorted(new_ids)) if reader.sees(one)]
    visible = looked_up | {one.id for one in sources}
    later = {old: new for old, new in later.items() if new in visible}
    return ReplacedMemories({one.id: new for one in found if (new := _current(later, one.id)) != one.id}, is_partial)


def key_root(user: object, key: str) -> str:
    """Return how the origins of a user's memories under a key begin."""
    return f"{_KEYED}{digest(canonical_json([user, key]))}/"


def current_under(ledger: Ledger, root: str, reader: Reader) -> Source | None:
    """Return the current visible memory under the root of a key, in whatever session; `None` if there is none."""
    where = And((Compare("origin", "prefix", root), Compare("status", "eq", "active")))
    for most in (1, _MAX_HIDDEN):
        newest = ledger.select(Selection(scope=ROOT, descend=True, types=("source",), where=where, newest=most))
        visible = [one for one in newest if isinstance(one, Source) and reader.sees(one)]
        if visible:
            last = visible[-1].id
            return next(iter(_read(ledger, [_current(_by_links(ledger, [last], reader), last)])), None)
    return None


def _by_keys(ledger: Ledger, found: Sequence[Source], reader: Reader) -> dict[str, str]:
    """Return the current memory for each of those with a key. Links lead there, too, but one by one."""
    roots = {one.id: one.origin.rpartition("/")[0] + "/" for one in found}
    keyed = {identity: root for identity, root in roots.items() if root.startswith(_KEYED)}
    current = {root: current_under(ledger, root, reader) for root in dict.fromkeys(keyed.values())}
    by_id = {identity: one.id for identity, root in keyed.items() if (one := current[root])}
    return {identity: other for identity, other in by_id.items() if other != identity}


def _by_links(ledger: Ledger, ids: Sequence[str], reader: Reader) -> dict[str, str]:
    """Follow the links that name a replacement, to visible memories."""
    later: dict[str, str] = {}
    waiting = list(dict.fromkeys(ids))
    while waiting:
        (read,) = ledger.read([ObjectRequest(links=tuple(waiting))])
        links = {link for identity in waiting for link in read.links.get(identity, ()) if link.type == "supersedes"}
        sources = {one.id for one in _read(ledger, sorted({link.source for link in links})) if reader.sees(one)}
        visible = sorted((link for link in links if link.source in sources), key=lambda link: link.source)
        new = {link.target: link.source for link in visible if link.target in waiting and link.target not in later}
        later |= new
        waiting = [one for one in new.values() if one not in later]
    return later


def _read(ledger: Ledger, ids: Sequence[str]) -> Iterable[Source]:
    if not ids:
        return ()
    (read,) = ledger.read([ObjectRequest(objects=tuple(ids))])
    return [one for one in read.objects.values() if isinstance(one, Source)]


def _current(later: Mapping[str, str], identity: str) -> str:
    for _ in later:  # links may form a circle
        identity = later.get(identity, identity)
    return identity
