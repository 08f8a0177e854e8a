"""Rows of access keys, the same in all databases."""

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from treering.core.errors import Conflict
from treering.ports.stores import AccessKey, KeyLimits

COLUMNS = (
    *("id", "name", "digest", "space", "scope", "granted", "channel"),
    *("created", "expires", "revoked", "used"),
    *("per_minute", "at_once", "max_body"),
    "read_up_to",
)
"""The columns, in the order of `row_of`. Times are texts in ISO form.

The limits came with version 2, `read_up_to` with version 3.
"""


def row_of(key: AccessKey) -> tuple[Any, ...]:
    """Return the row of a key."""
    times = (key.created, key.expires, key.revoked, key.used)
    values = (key.id, key.name, key.digest, key.space, key.scope, key.right, key.channel)
    limits = (key.limits.requests_per_minute, key.limits.at_once, key.limits.max_body_bytes)
    return (*values, *(time.isoformat() if time else None for time in times), *limits, key.read_up_to or None)


def key_of(row: Sequence[Any]) -> AccessKey:
    """Return the key of a row."""
    created, expires, revoked, used = (datetime.fromisoformat(time) if time else None for time in row[7:11])
    key_id, name, digest, space, scope, right, channel = row[:7]
    return AccessKey(
        *(key_id, name, bytes(digest), space, scope, right, channel, created, expires, revoked, used),
        KeyLimits(*row[11:14]),
        row[14] or "",
    )


def taken_name(name: str) -> Conflict:
    """Return the error for a name that another key has."""
    return Conflict(
        f"The key {name!r} already exists.",
        hint="Choose another name, or revoke it first: treering key revoke NAME.",
        details={"name": name},
    )
