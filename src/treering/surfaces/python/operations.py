"""All operations on a space other than the four verbs, each declared once. Surfaces render these tables."""

from collections.abc import Mapping
from operator import attrgetter
from typing import Any

from treering.core.errors import InvalidInput, nearest
from treering.registry import brought_by_name
from treering.verbs import feedback
from treering.verbs.crystallize import review
from treering.verbs.envelope import Operation
from treering.verbs.lint import upkeep
from treering.verbs.lint.erasure import ERASE
from treering.verbs.query import space_status

ON_SPACES: tuple[Operation[Any], ...] = (
    *review.OPERATIONS,
    *feedback.OPERATIONS,
    ERASE,
)
"""Operations on a space as a whole: for the command line, Python, and HTTP if the server grants them."""
UPKEEP: tuple[Operation[Any], ...] = (
    *upkeep.OPERATIONS,
    *space_status.OPERATIONS,
)
"""Maintenance of a space and its work, for the command line and Python."""
OF_PARTS: tuple[Operation[Any], ...] = tuple(
    brought_by_name("operations", attrgetter("name"), taken={one.name for one in (*ON_SPACES, *UPKEEP)})
)
"""The operations of parts, such as those on discussions: for the command line and Python."""
OPERATIONS: Mapping[str, Operation[Any]] = {one.name: one for one in (*ON_SPACES, *UPKEEP, *OF_PARTS)}
"""All of them by name."""

EXAMPLES: Mapping[str, Mapping[str, Mapping[str, Any]]] = {
    "review list": {
        "list waiting patches": {},
    },
    "review show": {
        "show the changes in a patch": {"input": {"patch_id": "patch:01kefz5b1jt7w2y9a5m3x8q6rv"}},
    },
    "review apply": {
        "apply a patch": {"input": {"patch_id": "patch:01kefz5b1jt7w2y9a5m3x8q6rv"}},
    },
    "review reject": {
        "reject a patch": {
            "input": {"patch_id": "patch:01kefz5b1jt7w2y9a5m3x8q6rv"},
            "options": {"reason": "We use spaces"},
        },
    },
    "revert": {
        "revert a patch": {"input": {"patch_id": "patch:01kefz5b1jt7w2y9a5m3x8q6rv"}},
    },
    "feedback status": {
        "show the stored feedback": {},
    },
    "feedback off": {
        "everywhere": {},
    },
    "feedback on": {
        "everywhere again": {},
    },
    "feedback erase": {
        "erase the feedback of all scopes": {},
    },
    "erase": {
        "erase a source": {
            "input": {"ids": ["src:01kefz3m8qd5v2n7x4t9r6w0ya"]},
            "options": {"reason": "Asked by Ada"},
        },
        "erase all of a user": {"input": {"scope": "/users/ada"}, "options": {"reason": "Asked by Ada"}},
    },
}
"""Example calls of operations over HTTP, by purpose."""


def find(name: str) -> Operation[Any]:
    """Return an operation by name. Raises `InvalidInput` with the nearest known name."""
    if name not in OPERATIONS:
        raise InvalidInput(
            f"There is no operation {name!r}.", hint=nearest(name, OPERATIONS), details={"known": list(OPERATIONS)}
        )
    return OPERATIONS[name]
