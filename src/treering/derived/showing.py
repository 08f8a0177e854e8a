"""Whether an object may be shown to a read."""

from treering.core.lifecycle import CURRENT, is_over
from treering.core.objects import Object
from treering.core.scope import sees
from treering.ports.ledger import Head
from treering.ports.reach import Reach


def is_shown(state: Head | None, reach: Reach) -> bool:
    """Tell whether an object in this state may be shown to a read: scope and status, filters apart."""
    if state is None:
        return False
    shown = reach.withdrawn or state.status in CURRENT[state.type]
    return shown and sees(reach.scope, state.scope, descend=reach.descend)


def is_withheld(item: Object, reach: Reach) -> bool:
    """Tell whether an object is kept from a read because it is over, whatever its status."""
    return not reach.withdrawn and reach.now is not None and is_over(item, now=reach.now)
