"""How far an index is behind, and the warning of it. Needs no retrieval: writes give it, too."""

from treering.core.scope import WHOLE_SPACE, Boundary
from treering.ports.passages import Reach
from treering.ports.search import Lag
from treering.verbs.engine import Engine
from treering.verbs.scoped_ledger import boundary_of, whole


def boundary(engine: Engine) -> Boundary:
    """Return the scopes outside of which the caller may neither read nor name anything."""
    return boundary_of(whole(engine.ledger))


def lag_seen(engine: Engine, lag: Lag) -> Lag:
    """Return an embedding backlog as the caller may see it: upper bounds for a caller of one scope."""
    seen = boundary(engine)
    if seen == WHOLE_SPACE:
        return lag
    total = engine.index.passages.count(Reach(seen.scope, descend=True, boundary=seen))
    pending = min(lag.pending, total)
    return Lag(pending, total, min(lag.behind, 1), min(lag.quick, pending), exact=False)


def index_warning(engine: Engine) -> tuple[str, ...]:
    """Warn of new or changed objects that are not indexed yet, with their number if the caller sees the whole space."""
    return behind_warning(engine.index.upkeep.behind().waiting, exact=boundary(engine) == WHOLE_SPACE)


def behind_warning(behind: int, *, exact: bool = True) -> tuple[str, ...]:
    """Warn of new or changed objects that are not indexed yet."""
    if not behind:
        return ()
    missing = f"{behind} new or changed objects are not found" if exact else "some new objects may not be found"
    return (f"The index is being rebuilt or updated: {missing} yet.",)
