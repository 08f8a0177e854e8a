"""The current generation of a wiki, stored as one source per scope."""

from collections.abc import Mapping

from treering.core.filters import And, Compare
from treering.core.objects import Source
from treering.core.patch import Create, Operation, Update
from treering.extensions.client.items.recalling import read_sources
from treering.extensions.client.items.recording import new_note
from treering.ports.ledger import Selection
from treering.verbs.engine import Engine

_ORIGIN = "wiki-generation"
_KEY = "generation"


def all_current_generations(engine: Engine, scope: str) -> Mapping[str, str]:
    """Return the current generations of a repository and all its branches, by scope."""
    where = And((Compare("origin", "eq", _ORIGIN), Compare("status", "eq", "active")))
    sources = engine.ledger.select(Selection(scope, descend=True, types=("source",), where=where))
    return {one.scope: str(one.metadata[_KEY]) for one in sources if isinstance(one, Source)}


def current_generation(engine: Engine, scope: str) -> str | None:
    """Return the current generation of a scope; `None` if none is complete."""
    source = _source(engine, scope)
    return str(source.metadata[_KEY]) if source else None


def generation_change(engine: Engine, scope: str, generation: str) -> list[Operation]:
    """Return the operations that make a generation current in a scope; none if it is already."""
    source = _source(engine, scope)
    if source is None:
        now = engine.clock.now()
        note = new_note(engine, "", scope=scope, now=now, origin=_ORIGIN, metadata={_KEY: generation}, captured_at=now)
        return [Create(object=note)]
    if source.metadata[_KEY] == generation:
        return []
    return [Update(id=source.id, expected_revision=source.revision, changes={"metadata": {_KEY: generation}})]


def _source(engine: Engine, scope: str) -> Source | None:
    state = engine.ledger.sources_at(scope=scope, origins=[_ORIGIN]).get(_ORIGIN)
    return read_sources(engine, [state.id]).get(state.id) if state and state.status == "active" else None
