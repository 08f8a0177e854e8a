"""Damage to a SQLite file as it may happen: flipped bytes, and rows that something else changed."""

import json
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from random import Random
from typing import Any

import apsw

from treering.core.errors import TreeringError

_ODD: Sequence[Any] = (
    None,
    0,
    -1,
    2**62,
    1.5,
    "",
    "x",
    "{",
    "[]",
    '{"a": 1}',
    "\x00",
    b"",
    b"\x00",
    b"\xff\xfe",
    "é" * 300,
)


def flip_bytes(path: Path, chance: Random, *, most: int = 8) -> str:
    """Flip a few bits of a file; say where."""
    content = bytearray(path.read_bytes())
    places = [chance.randrange(len(content)) for _ in range(chance.randint(1, most))]
    for place in places:
        content[place] ^= 1 << chance.randrange(8)
    path.write_bytes(content)
    return f"bits flipped in bytes {places}"


def flip_byte_of(path: Path, name: str, chance: Random) -> str:
    """Flip a bit in what a file keeps of one table or index, where there is something; say where."""
    connection = apsw.Connection(str(path))
    try:
        pages = [page for (page,) in connection.execute("SELECT pageno FROM dbstat WHERE name = ?", (name,))]
        size = connection.pragma("page_size")
    finally:
        connection.close()
    content = bytearray(path.read_bytes())
    start = (chance.choice(pages) - 1) * size
    place = chance.choice([at for at in range(start, start + size) if content[at]])
    content[place] ^= 1 << chance.randrange(8)
    path.write_bytes(content)
    return f"a bit flipped in byte {place}, of {name}"


def trees_of(path: Path) -> list[str]:
    """Return the tables and indexes that a file keeps pages of."""
    connection = apsw.Connection(str(path))
    try:
        return [name for (name,) in connection.execute("SELECT DISTINCT name FROM dbstat ORDER BY name")]
    finally:
        connection.close()


def change_row(path: Path, chance: Random, *, unpack: Callable[[bytes], str]) -> str:
    """Change one value of one row behind its program's back; say which. `unpack` reads what a column holds packed."""
    connection = apsw.Connection(str(path))
    try:
        connection.execute("PRAGMA ignore_check_constraints = ON")
        while True:
            # What a constraint refuses is tried otherwise.
            with suppress(apsw.Error):
                return _change(connection, chance, unpack)
    finally:
        connection.close()


def _change(connection: apsw.Connection, chance: Random, unpack: Callable[[bytes], str]) -> str:
    tables = [
        name
        for name, sql in connection.execute("SELECT name, sql FROM sqlite_schema WHERE type = 'table' ORDER BY name")
        if "VIRTUAL" not in sql and not name.startswith("sqlite_")
    ]
    sizes = {table: next(connection.execute(f'SELECT count(*) FROM "{table}"'))[0] for table in tables}
    table = chance.choice([name for name, size in sizes.items() if size])
    columns = list(connection.execute(f'SELECT name, pk FROM pragma_table_info("{table}")'))
    keys = [name for name, pk in columns if pk] or ["rowid"]
    sql = f'SELECT {", ".join(keys)} FROM "{table}" LIMIT 1 OFFSET ?'
    row = next(connection.execute(sql, (chance.randrange(sizes[table]),)))
    column = chance.choice([name for name, _ in columns])
    here = " AND ".join(f"{key} IS ?" for key in keys)
    was = next(connection.execute(f'SELECT "{column}" FROM "{table}" WHERE {here}', row))[0]
    value = _changed(was, chance, unpack)
    connection.execute(f'UPDATE "{table}" SET "{column}" = ? WHERE {here}', (value, *row))
    return f"{table}.{column} of {row} was {str(was)[:80]!r} and is {str(value)[:200]!r}"


def _changed(value: Any, chance: Random, unpack: Callable[[bytes], str]) -> Any:
    data = _json(value, unpack)
    if isinstance(data, (dict, list)) and data and chance.random() < 0.8:
        return json.dumps(_odd_inside(data, chance))
    return chance.choice(_ODD)


def _json(value: Any, unpack: Callable[[bytes], str]) -> Any:
    with suppress(TreeringError, ValueError, TypeError):
        return json.loads(unpack(value) if isinstance(value, bytes) else value)
    return None


def _odd_inside(data: Any, chance: Random) -> Any:
    """Change one value somewhere in JSON data, or leave it out."""
    if not isinstance(data, (dict, list)) or not data:
        return chance.choice([None, 0, -1, 1e300, "", "x", [], {}, [None], {"a": None}, True])
    if isinstance(data, list):
        place = chance.randrange(len(data))
        return [_odd_inside(each, chance) if number == place else each for number, each in enumerate(data)]
    name = chance.choice(sorted(data))
    if chance.random() < 0.2:
        return {key: value for key, value in data.items() if key != name}
    return {**data, name: _odd_inside(data[name], chance)}
