"""Memories that later ones replaced: named by the host, stored under the same key, or contradicted by their text."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from treering.core.canonical import canonical_json, digest
from treering.core.filters import And, Compare
from treering.core.objects import Source
from treering.core.scope import ROOT
from treering.extensions.client.items.documents import AGENT, PREFIX, SESSION, TYPE, UNKNOWN_AGENT, USER
from treering.extensions.client.items.weighing import FoundMemory
from treering.extensions.statements.ledger import StatementLedger
from treering.extensions.statements.reading import statements_of
from treering.extensions.statements.statement import SaidMessage, Statement
from treering.ports.ledger import Head, Ledger, ObjectRequest, Selection
from treering.verbs.engine import Engine

MAX_STATED_CHARS = 1_000
"""Longer memories are documents and logs: their sentences are not compared."""
MAX_COMPARED = 40
"""Memories that a search found whose texts are compared with each other."""
MAX_OTHERS = 20
"""Memories below the threshold whose texts are compared, too: the nearest to the query."""
_KEYED = f"{PREFIX}key/"
_OF_MACHINES = frozenset({"execution_trace", "tool_execution", "tool_result", "failure_analysis"})


def replaced_memories(
    engine: Engine,
    found: Sequence[FoundMemory],
    *,
    others: Sequence[FoundMemory] = (),
    shown: int = 0,
    compared: int = MAX_COMPARED,
) -> dict[str, str]:
    """Return the ids of found memories that were replaced, with the current one at the end of the chain.

    `others`: memories whose texts may replace the first found ones, as many as are `shown`. `compared`: the
    maximum number of memories whose texts are compared.
    """
    ids = [one.source.id for one in found]
    later = _by_keys(engine.ledger, found)
    later |= _by_links(engine.ledger, [one for one in ids if one not in later])
    # First among the found ones: a statement replaces only one, and should not be taken for one of the others.
    for memories in (found, [*found[:shown], *others]) if others else (found,):
        for old, new in _by_statements(engine, memories[:compared]).items():
            if _current(later, new) != old:  # a link states the reverse
                later.setdefault(old, new)
    return {one: current for one in ids if (current := _current(later, one)) != one}


def current_memories(ledger: Ledger, ids: Sequence[str]) -> dict[str, str]:
    """Return for each memory the current one that the links to replacements lead to, often itself."""
    later = _by_links(ledger, ids)
    return {one: _current(later, one) for one in ids}


def key_root(user: object, key: str) -> str:
    """Return how the origins of a user's memories under a key begin."""
    return f"{_KEYED}{digest(canonical_json([user, key]))}/"


def current_under(ledger: Ledger, root: str) -> Source | None:
    """Return the current memory under the root of a key, in whatever session; `None` if there is none."""
    where = And((Compare("origin", "prefix", root), Compare("status", "eq", "active")))
    newest = ledger.select(Selection(scope=ROOT, descend=True, types=("source",), where=where, newest=1))
    ids = current_memories(ledger, [one.id for one in newest]).values()
    (read,) = ledger.read([ObjectRequest(objects=tuple(ids))])
    return next((one for one in read.objects.values() if isinstance(one, Source)), None)


def _by_keys(ledger: Ledger, found: Sequence[FoundMemory]) -> dict[str, str]:
    """Return the current memory for each of those with a key. Links lead there, too, but one by one."""
    roots = {one.source.id: one.source.origin.rpartition("/")[0] + "/" for one in found}
    keyed = {identity: root for identity, root in roots.items() if root.startswith(_KEYED)}
    current = {root: current_under(ledger, root) for root in dict.fromkeys(keyed.values())}
    by_id = {identity: one.id for identity, root in keyed.items() if (one := current[root])}
    return {identity: other for identity, other in by_id.items() if other != identity}


def _by_links(ledger: Ledger, ids: Sequence[str]) -> dict[str, str]:
    """Follow the links that name a replacement, to active memories."""
    later: dict[str, str] = {}
    asked = list(dict.fromkeys(ids))
    while asked:
        (read,) = ledger.read([ObjectRequest(links=tuple(asked))])
        links = {link for identity in asked for link in read.links.get(identity, ()) if link.type == "supersedes"}
        heads = ledger.heads(link.source for link in links)
        active = sorted((link for link in links if _is_active(heads, link.source)), key=lambda link: link.source)
        new = {link.target: link.source for link in active if link.target in asked and link.target not in later}
        later |= new
        asked = [one for one in new.values() if one not in later]
    return later


def _is_active(heads: Mapping[str, Head], identity: str) -> bool:
    return identity in heads and heads[identity].status == "active"


def _by_statements(engine: Engine, found: Sequence[FoundMemory]) -> dict[str, str]:
    """Compare the statements in the memories of each owner."""
    later: dict[str, str] = {}
    groups: dict[tuple[str, ...], list[FoundMemory]] = {}
    for one in found:
        if len(one.text) <= MAX_STATED_CHARS and one.metadata.get(TYPE) not in _OF_MACHINES:
            groups.setdefault(_owner(one.metadata), []).append(one)
    for (speaker, *_), group in groups.items():
        ordered = sorted(group, key=lambda one: (one.source.captured_at, one.source.id))
        ledger = StatementLedger()
        for at, one in enumerate(ordered):
            for statement in _read(engine, speaker, one):
                ledger.add(replace(statement, message=at))
        for position, one in enumerate(ordered):
            replaced = ledger.replaced_message(position)
            if replaced and not replaced.degree:
                later[one.source.id] = ordered[replaced.changes[-1][1].message].source.id
    return later


def _read(engine: Engine, speaker: str, memory: FoundMemory) -> Sequence[Statement]:
    """Return the statements of a memory. Without its place among others, so that they are read from a cache."""
    return statements_of(SaidMessage(0, speaker, memory.text, engine.time_zone.local(memory.source.captured_at)))


def _owner(metadata: Mapping[str, Any]) -> tuple[str, ...]:
    """Return whose memory it is: a user's, whichever agent stored it; else an agent's in a session."""
    user, agent, session = (str(metadata.get(name) or "") for name in (USER, AGENT, SESSION))
    return (user,) if user else ("user" if agent in {"", UNKNOWN_AGENT} else agent, session)


def _current(later: dict[str, str], identity: str) -> str:
    for _ in later:  # links may form a circle
        identity = later.get(identity, identity)
    return identity
