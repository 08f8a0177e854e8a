"""The current generation of a wiki, stored as one source per scope."""

from collections.abc import Mapping, Sequence

from treering.core.filters import And, Compare
from treering.core.objects import Source
from treering.core.patch import Create, Operation, Update
from treering.ports.ledger import ObjectRequest, Selection
from treering.ports.runtime import fresh_id, fresh_salt
from treering.verbs.engine import Engine

_ORIGIN = "wiki-generation"
_KEY = "generation"


def all_current_generations(engine: Engine, scope: str) -> Mapping[str, str]:
    """Return the current generations of a repository and all its branches, by scope."""
    where = And((Compare("origin", "eq", _ORIGIN), Compare("status", "eq", "active")))
    sources = engine.ledger.select(Selection(scope, descend=True, types=("source",), where=where))
    return {one.scope: str(one.metadata[_KEY]) for one in sources if isinstance(one, Source)}


def current_generations(engine: Engine, scopes: Sequence[str]) -> Mapping[str, str]:
    """Return the current generations by scope; scopes without a complete generation are omitted."""
    sources = _sources(engine, scopes)
    return {scope: str(source.metadata[_KEY]) for scope, source in sources.items()}


def generation_change(engine: Engine, scope: str, generation: str) -> list[Operation]:
    """Return the operations that make a generation current in a scope; none if it is already."""
    source = _sources(engine, [scope]).get(scope)
    if source is None:
        return [Create(object=_source(engine, scope, generation))]
    if source.metadata[_KEY] == generation:
        return []
    return [Update(id=source.id, expected_revision=source.revision, changes={"metadata": {_KEY: generation}})]


def _sources(engine: Engine, scopes: Sequence[str]) -> dict[str, Source]:
    states = (engine.ledger.sources_at(scope=scope, origins=[_ORIGIN]).get(_ORIGIN) for scope in scopes)
    ids = [state.id for state in states if state and state.status == "active"]
    if not ids:
        return {}
    (read,) = engine.ledger.read([ObjectRequest(objects=tuple(ids))])
    return {one.scope: one for one in read.objects.values() if isinstance(one, Source)}


def _source(engine: Engine, scope: str, generation: str) -> Source:
    now = engine.clock.now()
    return Source(
        id=fresh_id("source", engine.clock),
        kind="note",
        scope=scope,
        created_at=now,
        updated_at=now,
        origin_channel=engine.author.channel,
        salt=fresh_salt(engine.clock),
        origin=_ORIGIN,
        metadata={_KEY: generation},
        captured_at=now,
    )
