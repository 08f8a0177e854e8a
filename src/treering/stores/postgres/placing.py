"""Changes to a directory of servers: servers that are added or drained, moves of spaces that begin or are given up."""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from secrets import token_hex

import psycopg
from psycopg import errors

from treering.core.errors import Conflict, Denied, InvalidInput, NotFound
from treering.ports.stores import UnfinishedMove
from treering.stores.postgres.connection.directory import (
    Directory,
    Placement,
    SpaceServer,
    read_placement,
    server_address,
)
from treering.stores.postgres.connection.failures import translated
from treering.stores.postgres.connection.schema import SCHEMA, migrate

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,62}")
_SCHEME = "postgresql"
_LOCK_SECONDS = 10
_LISTED = 5  # spaces that an error names
# The policies hide the names from the owner, too; nobody else sees the tables until this transaction ends.
_OPENED = "; ".join(f"ALTER TABLE {table} NO FORCE ROW LEVEL SECURITY" for table in ("space_names", "spaces"))
_FENCED = "; ".join(f"ALTER TABLE {table} FORCE ROW LEVEL SECURITY" for table in ("space_names", "spaces"))
_SERVED = "SELECT n.name FROM space_names n JOIN spaces s ON s.space = n.space WHERE s.moving IS NULL ORDER BY n.name"
_JOIN = (
    "INSERT INTO membership(server, directory) VALUES(%s, %s) "
    "ON CONFLICT (one) DO UPDATE SET directory = excluded.directory WHERE membership.server = excluded.server "
    "RETURNING server"
)
_KEEP = (
    "INSERT INTO servers(name, address) VALUES(%s, %s) "
    "ON CONFLICT (name) DO UPDATE SET address = excluded.address, draining = false"
)
_ADOPT = "INSERT INTO placements(name, server) SELECT unnest(%s::text[]), %s ON CONFLICT DO NOTHING"
_ELSEWHERE = "SELECT name FROM placements WHERE name = ANY(%s) AND server <> %s ORDER BY name"
_UNFINISHED = (
    "SELECT name, server, target, left_on FROM placements WHERE target IS NOT NULL OR left_on IS NOT NULL ORDER BY name"
)
_BEGIN = (
    "UPDATE placements SET target = %(target)s, move = CASE WHEN target = %(target)s THEN move ELSE %(move)s END "
    "WHERE name = %(space)s"
)


def add_server(directory: Directory, name: str, address: str) -> int:
    """Add a server, with the spaces that its database has already; return their number.

    Its database is given the tables. Adding one again takes a new address, and ends draining. Raises `InvalidInput`,
    and `Conflict` where it is a server of another name, or has a space that another server has.
    """
    _check_name(name)
    server = SpaceServer(name, _checked_address(address))
    target = directory.target_of(server, "")
    with translated(target.shown), psycopg.connect(target.conninfo, autocommit=True) as connection:
        migrate(connection)
        with connection.transaction():
            names = _joined(connection, directory, name)
            _keep_server(directory, server, names)
    return len(names)


def drain_begun(directory: Directory, name: str) -> list[str]:
    """Have a server take no new spaces; return those that it has, and those that it keeps or gets a copy of."""
    directory.server(name)
    with owning(directory) as connection:
        connection.execute("UPDATE servers SET draining = true WHERE name = %s", (name,))
        sql = "SELECT name FROM placements WHERE %s IN (server, left_on, target) ORDER BY name"
        return [space for (space,) in connection.execute(sql, (name,)).fetchall()]


def unfinished(directory: Directory) -> list[UnfinishedMove]:
    """Return the moves that are not done, by the name of the space."""
    with owning(directory) as connection:
        return [UnfinishedMove(*row) for row in connection.execute(_UNFINISHED).fetchall()]


def emptiest_but(directory: Directory, server: str) -> str:
    """Return the server to move a space to: of those that take new ones, the one with the fewest."""
    others = [one for one in directory.servers() if not one.draining and one.name != server]
    if not others:
        raise InvalidInput(
            f"{directory.shown} has no other server that accepts spaces.",
            hint="Add one: treering postgres servers add NAME ADDRESS.",
        )
    return min(others, key=lambda one: (one.spaces, one.name)).name


@contextmanager
def moving_alone(directory: Directory, space: str) -> Iterator[None]:
    """Hold the right to move a space. Raises `Conflict` where another process has it; a process that ends loses it."""
    with directory.connection() as connection:
        key = f"move {space}"
        got = connection.execute("SELECT pg_try_advisory_lock(hashtextextended(%s, 0))", (key,)).fetchone()
        if not (got and got[0]):
            raise Conflict(f"Another process is moving {space!r}.", hint="Wait for it, or stop it and call again.")
        try:
            yield
        finally:
            if not connection.closed:
                connection.execute("SELECT pg_advisory_unlock(hashtextextended(%s, 0))", (key,))


def placed(directory: Directory, space: str) -> Placement:
    """Return where a space is by now. Raises `NotFound`."""
    with owning(directory, space) as connection:
        placement = read_placement(connection, space)
    if placement is None:
        raise NotFound(f"There is no space {space!r} in {directory.shown}.", hint="Correct the name.")
    return placement


def begin_move(directory: Directory, space: str, server: str) -> str:
    """Note that a space is on its way to a server; return the id of the move, the old one where that was noted."""
    with owning(directory, space) as connection:
        connection.execute(_BEGIN, {"space": space, "target": server, "move": token_hex(8)})
        row = connection.execute("SELECT move FROM placements WHERE name = %s", (space,)).fetchone()
    return str(row[0]) if row else ""


def give_up_move(directory: Directory, space: str) -> None:
    """Note that a space stays where it is."""
    with owning(directory, space) as connection:
        connection.execute("UPDATE placements SET target = NULL, move = NULL WHERE name = %s", (space,))


def note_removed(directory: Directory, space: str) -> None:
    """Note that no server keeps an old copy of a space any more."""
    with owning(directory, space) as connection:
        connection.execute("UPDATE placements SET left_on = NULL WHERE name = %s", (space,))
    directory.forget(space)


@contextmanager
def owning(directory: Directory, space: str = "") -> Iterator[psycopg.Connection]:
    """Hold a transaction that sees all placements. Raises `Denied` where the user is not the owner of the tables."""
    with directory.transaction(space) as connection:
        row = connection.execute("SELECT row_security_active('placements')").fetchone()
        if row and row[0]:
            raise Denied(
                f"Only the owner of the tables can list the servers of {directory.shown}.",
                hint="Give the owner in the address: postgresql://OWNER@HOST/DATABASE.",
            )
        yield connection


def _joined(connection: psycopg.Connection, directory: Directory, name: str) -> list[str]:
    """Note on a server whose it is; return the spaces that it serves. From now on it makes none by itself."""
    connection.execute(f"SET LOCAL search_path = {SCHEMA}")
    connection.execute(f"SET LOCAL lock_timeout = '{_LOCK_SECONDS}s'")
    try:
        connection.execute(_OPENED)
    except errors.InsufficientPrivilege as error:
        raise Denied(
            f"Only the owner of its tables can add the server {name!r}.",
            hint="Give the owner in the address of the directory or of the server.",
        ) from error
    names = [space for (space,) in connection.execute(_SERVED).fetchall()]
    connection.execute(_FENCED)
    if connection.execute(_JOIN, (name, directory.shown)).fetchone() is None:
        row = connection.execute("SELECT server, directory FROM membership").fetchone()
        theirs, shown = row or ("", "")
        raise Conflict(f"That database is already the server {theirs!r} of {shown}.", hint="Add it under that name.")
    return names


def _keep_server(directory: Directory, server: SpaceServer, names: list[str]) -> None:
    with owning(directory) as connection:
        connection.execute(_KEEP, (server.name, server.address))
        twice = [space for (space,) in connection.execute(_ELSEWHERE, (names, server.name)).fetchall()]
        if twice:
            raise Conflict(
                f"{len(twice)} spaces are already on another server: {', '.join(twice[:_LISTED])}.",
                hint="Rename them on that server (treering move), or do not add it.",
                details={"spaces": twice},
            )
        more = connection.execute(_ADOPT, (names, server.name)).rowcount
        connection.execute("UPDATE servers SET spaces = spaces + %s WHERE name = %s", (more, server.name))
    for space in names:
        directory.forget(space)


def _check_name(name: str) -> None:
    if not _NAME.fullmatch(name):
        raise InvalidInput(
            f"{name[:100]!r} is not a valid server name.",
            hint="Use 1 to 63 letters, digits, dots, hyphens and underscores, such as db2.",
        )


def _checked_address(text: str) -> str:
    address = server_address(text)
    if address.scheme != _SCHEME:
        raise InvalidInput(f"{address} is not a Postgres server.", hint="Write postgresql://HOST/DATABASE.")
    if address.password:
        raise InvalidInput(
            f"The directory stores server addresses, and {address} contains a password.",
            hint="Omit it; Treering uses the password of the directory's address, ~/.pgpass or PGPASSWORD.",
        )
    return address.url
