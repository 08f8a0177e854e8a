"""How far an index is behind, and the warning of it. Needs no retrieval: writes give it, too."""

from treering.core.scope import ROOT
from treering.ports.passages import Reach
from treering.ports.search import Lag
from treering.verbs.engine import Engine
from treering.verbs.scoped_ledger import boundary_of, whole


def boundary(engine: Engine) -> str:
    """Return the scope outside of which the caller may neither read nor name anything."""
    return boundary_of(whole(engine.ledger))


def lag_seen(engine: Engine, lag: Lag) -> Lag:
    """Return an embedding backlog as the caller may see it: upper bounds for a caller of one scope."""
    scope = boundary(engine)
    if scope == ROOT:
        return lag
    total = engine.index.passages.count(Reach(scope, descend=True))
    pending = min(lag.pending, total)
    return Lag(pending, total, min(lag.behind, 1), min(lag.quick, pending), exact=False)


def index_warning(engine: Engine) -> tuple[str, ...]:
    """Warn of new or changed objects that are not indexed yet, with their number if the caller sees the whole space."""
    return behind_warning(engine.index.upkeep.behind().waiting, exact=boundary(engine) == ROOT)


def behind_warning(behind: int, *, exact: bool = True) -> tuple[str, ...]:
    """Warn of new or changed objects that are not indexed yet."""
    if not behind:
        return ()
    missing = f"{behind} new or changed objects are not found" if exact else "some new objects may not be found"
    return (f"The index is being rebuilt or updated: {missing} yet.",)
