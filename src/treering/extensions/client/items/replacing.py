"""Memories that later ones replaced: named by the host, stored under the same key, or contradicted by their text."""

from collections.abc import Mapping, Sequence
from typing import Any

from treering.extensions.client.items.documents import AGENT, SESSION, TYPE, UNKNOWN_AGENT, USER
from treering.extensions.client.items.weighing import FoundMemory
from treering.extensions.statements.ledger import StatementLedger
from treering.extensions.statements.reading import statements_of
from treering.extensions.statements.statement import SaidMessage
from treering.ports.ledger import Head, Ledger, ObjectRequest
from treering.verbs.engine import Engine

MAX_STATED_CHARS = 1_000
"""Longer memories are documents and logs: their sentences are not compared."""
MAX_COMPARED = 40
"""Memories that a search found whose texts are compared with each other."""
MAX_OTHERS = 20
"""Memories below the threshold whose texts are compared, too: the nearest to the query."""
MAX_STEPS = 20
"""Replacements of replacements that are followed."""
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
    later = _by_links(engine.ledger, ids)
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


def _by_links(ledger: Ledger, ids: Sequence[str]) -> dict[str, str]:
    """Follow the links that name a replacement, to active memories."""
    later: dict[str, str] = {}
    asked = list(dict.fromkeys(ids))
    for _ in range(MAX_STEPS):
        if not asked:
            break
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
        said = (
            SaidMessage(at, speaker, one.text, engine.time_zone.local(one.source.captured_at))
            for at, one in enumerate(ordered)
        )
        ledger = StatementLedger.of(statement for one in said for statement in statements_of(one))
        for position, one in enumerate(ordered):
            replaced = ledger.replaced_message(position)
            if replaced and not replaced.degree:
                later[one.source.id] = ordered[replaced.changes[-1][1].message].source.id
    return later


def _owner(metadata: Mapping[str, Any]) -> tuple[str, ...]:
    """Return whose memory it is: a user's, whichever agent stored it; else an agent's in a session."""
    user, agent, session = (str(metadata.get(name) or "") for name in (USER, AGENT, SESSION))
    return (user,) if user else ("user" if agent in {"", UNKNOWN_AGENT} else agent, session)


def _current(later: dict[str, str], identity: str) -> str:
    for _ in range(MAX_STEPS):
        if identity not in later:
            break
        identity = later[identity]
    return identity
