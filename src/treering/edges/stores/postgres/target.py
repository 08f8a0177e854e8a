"""What an address of a space on Postgres says: how to connect, and which space of the database."""

import re
from dataclasses import dataclass, replace

import psycopg
from psycopg.conninfo import make_conninfo

from treering.core.errors import InvalidInput, nearest
from treering.edges.address import SPACE, Address

POOL = "pool"
CONNECTIONS = 8
"""Connections that one process keeps to a database at most, unless the address says otherwise."""
_MOST_CONNECTIONS = 100
_LIBPQ = frozenset(
    {
        *("host", "sslmode", "sslrootcert", "sslcert", "sslkey", "sslpassword", "sslcrl", "channel_binding"),
        *("require_auth", "passfile", "service", "connect_timeout", "application_name", "target_session_attrs"),
        *("gssencmode", "krbsrvname", "keepalives", "keepalives_idle", "keepalives_interval", "keepalives_count"),
    }
)
_SPACE = re.compile(r"[^\x00-\x1f\x7f]{1,200}")
_DEFAULTS = {"connect_timeout": "5", "application_name": "treering"}


@dataclass(frozen=True, slots=True, repr=False)
class Target:
    """A space of a database. `conninfo` may hold a password: it is for the driver, and is never shown.

    `shown`: the address without its password, for errors.
    """

    conninfo: str
    space: str
    shown: str
    connections: int = CONNECTIONS


def target_of(address: Address) -> Target:
    """Read an address `postgresql://[USER[:PASSWORD]@]HOST[:PORT]/DATABASE?space=NAME`.

    Other options: `pool`, how many connections a process keeps at most, and those of libpq about hosts, encryption
    and passwords. Raises `InvalidInput` naming what is wrong, and no password.
    """
    options = dict(address.options)
    space = options.pop(SPACE, "")
    if not _SPACE.fullmatch(space):
        raise InvalidInput(
            f"The address {address} names no space of the database."
            if not space
            else f"{space[:_SHOWN]!r} is no name of a space.",
            hint="Add ?space=NAME, such as ?space=team/acme: 1 to 200 characters, no control characters.",
        )
    connections = _connections(options.pop(POOL, str(CONNECTIONS)))
    for name in options.keys() - _LIBPQ:
        raise InvalidInput(
            f"A space on Postgres has no option {name!r}.", hint=nearest(name, sorted({SPACE, POOL, *_LIBPQ}))
        )
    return Target(_conninfo(address, options), space, str(address), connections)


def _connections(given: str) -> int:
    if given.isascii() and given.isdigit() and 2 <= int(given) <= _MOST_CONNECTIONS:
        return int(given)
    raise InvalidInput(
        f"pool={given[:_SHOWN]!r} is no number of connections.",
        hint=f"Give a number from 2 to {_MOST_CONNECTIONS}: one connection is for writing.",
    )


def _conninfo(address: Address, options: dict[str, str]) -> str:
    try:
        return make_conninfo(replace(address, options=()).url, **{**_DEFAULTS, **options})
    except psycopg.ProgrammingError:
        pass  # the driver's words would quote the address with its password
    raise InvalidInput(
        f"{address} is no address of a database.",
        hint="Write postgresql://USER@HOST/DATABASE?space=NAME; passwords may stand in ~/.pgpass or PGPASSWORD.",
    )


_SHOWN = 100  # characters of an option that is refused
