"""Which rows an open transaction sees: row-level security goes by two settings of the transaction.

They are set by `SET LOCAL`, never by `set_config`: a distributed Postgres hands only statements on to its workers.
"""

import psycopg
from psycopg.sql import SQL, Identifier, Literal

from treering.edges.stores.postgres.schema import SCHEMA

_PATH = SQL("SET LOCAL search_path = {}").format(Identifier(SCHEMA))
_NAME = SQL("SET LOCAL treering.space_name = {}")
_NUMBER = SQL("SET LOCAL treering.space = {}")
_NUMBER_OF = "SELECT space FROM space_names WHERE name = %s"


def see_name(connection: psycopg.Connection, name: str) -> None:
    """Have a transaction see what is kept by the name of a space, and look for tables in our schema."""
    connection.execute(_PATH)
    connection.execute(_NAME.format(Literal(name)))


def see_number(connection: psycopg.Connection, number: int) -> None:
    """Have a transaction see the rows of a space, by its number in this database."""
    connection.execute(_NUMBER.format(Literal(str(number))))


def number_of(connection: psycopg.Connection, name: str) -> int | None:
    """Return the number of a space that the transaction sees by its name, or `None` where it is not there."""
    row = connection.execute(_NUMBER_OF, (name,)).fetchone()
    return None if row is None else int(row[0])


def see_space(connection: psycopg.Connection, name: str) -> int | None:
    """Have a transaction see the rows of a space; return its number, or `None` where it is not there."""
    see_name(connection, name)
    number = number_of(connection, name)
    if number is not None:
        see_number(connection, number)
    return number
