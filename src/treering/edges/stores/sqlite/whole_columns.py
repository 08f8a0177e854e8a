"""Reading whole columns as arrays: SQLite joins the values, for to hand over a row costs more than to find it."""

import apsw
import numpy as np
import numpy.typing as npt

Integers = npt.NDArray[np.int64]

_SHOWN = (
    "SELECT group_concat(key), group_concat(scope_id), group_concat(text_id) FROM passages "
    "WHERE live = 1 AND until_seq IS NULL"
)


def integers(joined: str | None) -> Integers:
    """Return the integers that `group_concat` joined."""
    return np.fromstring(joined or "", np.int64, sep=",")


def shown_passages(connection: apsw.Connection) -> tuple[Integers, Integers, Integers]:
    """Return the keys of all current passages, and for each the number of its scope and of its text."""
    keys, scopes, texts = map(integers, next(connection.execute(_SHOWN)))
    return keys, scopes, texts
