"""Open a space in a SQLite file or in memory."""

import json
import os
from collections.abc import Sequence, Set
from contextlib import ExitStack
from functools import partial
from typing import Any

import apsw

from treering.core.objects import Source
from treering.ports.index import Change
from treering.ports.runtime import LONGEST_SECONDS, Clock, Holding, JobRow
from treering.ports.stores import Needs, Stores
from treering.retrieval.index.projection import sources_in
from treering.stores.rows.records import (
    WaitingJobs,
    changed_by_erasure,
    check_lease_length,
    job_of,
    jobs_naming,
    jobs_seen,
    packed_job,
    without_erased,
)
from treering.stores.sqlite.database import Database
from treering.stores.sqlite.files import APPLICATION_ID, ARRIVING_ID
from treering.stores.sqlite.index.index import SqliteIndex
from treering.stores.sqlite.index.tables import JOBS
from treering.stores.sqlite.index.vector_feed import SqliteVectorFeed
from treering.stores.sqlite.ledger.ledger import SqliteLedger
from treering.stores.sqlite.noted_answers import note_answer
from treering.system.address import Address


def open_stores(address: Address, needs: Needs) -> Stores:
    """Open the file of an address. Raises `NotFound`, `Unavailable`, `Corrupt`."""
    with ExitStack() as closing:
        database = Database(address.place, create=needs.create, arriving=needs.arriving)
        closing.callback(database.close)
        index = SqliteIndex(database, model_id=needs.model_id, dimension=needs.dimension, quick=needs.quick)
        jobs = SqliteJobs(database)
        ledger = SqliteLedger(
            database,
            clock=needs.clock,
            policy=needs.policy if database.read_only else None,
            # They are updated in the ledger's transactions, so that committed changes are found.
            followers=(index, jobs),
            anchor=needs.anchor,
        )
        return Stores(
            ledger=ledger,
            index=index,
            jobs=jobs,
            leases=SqliteLeases(database, needs.clock),
            back_up=ledger.back_up,
            close=closing.pop_all().close,
            read_only=database.read_only,
            note_answer=partial(note_answer, address.file) if address.file else None,
            feed=SqliteVectorFeed(database, needs.model_id, needs.dimension),
            arrival=SqliteArrival(database) if needs.arriving else None,
        )


class SqliteArrival:
    """Marks the file of a space as an unfinished copy, by its application id."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def begin(self) -> None:
        """Durably refuse everyone who opens the space, and all writes except those of the copy."""
        self._mark(ARRIVING_ID)

    def end(self) -> None:
        """Allow the space to be used."""
        self._mark(APPLICATION_ID)

    def _mark(self, application: int) -> None:
        with self._database.write() as connection:
            connection.pragma("application_id", application)


_COLUMNS = "SELECT name, owner, process, renewed, seconds FROM held_leases"


class SqliteLeases:
    """`ports.runtime.Leases` over a space's `Database`. `SqliteIndex.prepare` creates the table."""

    def __init__(self, database: Database, clock: Clock) -> None:
        self._database = database
        self._clock = clock

    def take(self, name: str, owner: str, *, seconds: float) -> bool:
        """Acquire or renew a lease; return whether `owner` holds it."""
        check_lease_length(seconds)
        with self._database.write() as connection:
            now = self._clock.elapsed()
            known = _find(connection, name, now)
            if known and known.owner != owner:
                return False
            sql = "INSERT OR REPLACE INTO held_leases(name, owner, process, renewed, seconds) VALUES(?, ?, ?, ?, ?)"
            connection.execute(sql, (name, owner, os.getpid(), now, seconds))
            return True

    def holder(self, name: str) -> str | None:
        """Return the owner of a lease, or `None`."""
        with self._database.read() as connection:
            known = _find(connection, name, self._clock.elapsed())
        return known.owner if known else None

    def held(self) -> Sequence[Holding]:
        """Return the current leases, by name."""
        rows = self._database.rows(f"{_COLUMNS} ORDER BY name")
        now = self._clock.elapsed()
        return [known for row in rows if (known := _holding(row, now))]

    def clear(self, name: str) -> Holding | None:
        """Remove a lease from its owner; return it."""
        with self._database.write() as connection:
            known = _find(connection, name, self._clock.elapsed())
            connection.execute("DELETE FROM held_leases WHERE name = ?", (name,))
        return known


def _find(connection: apsw.Connection, name: str, now: float) -> Holding | None:
    row = next(connection.execute(f"{_COLUMNS} WHERE name = ?", (name,)), None)
    return _holding(row, now) if row else None


def _holding(row: tuple[Any, ...], now: float) -> Holding | None:
    """Return a lease; `None` if it has expired or was acquired before the machine started."""
    name, owner, process, renewed, seconds = row
    if not all(isinstance(value, int | float) for value in (process, renewed, seconds)):
        return None  # a row of another program is not a lease; the next owner replaces it
    age = now - renewed
    left = min(seconds, LONGEST_SECONDS) - age
    return Holding(name, owner, process, age, left) if age >= 0 and left > 0 else None


class SqliteJobs(WaitingJobs):
    """`ports.runtime.JobLog` over a space's `Database`, and the `Follower` that removes erased data from jobs."""

    def __init__(self, database: Database) -> None:
        super().__init__()
        self._database = database

    def save(self, job_id: str, row: JobRow) -> None:
        """Store the state of a job durably, without data about objects that were erased while it ran."""
        with self._database.write() as connection:
            _keep_job(connection, job_id, row, sources_in(row))

    def find(self, job_id: str) -> JobRow | None:
        """Return a job's last state."""
        row = self._database.row("SELECT body FROM jobs WHERE id = ?", (job_id,))
        return job_of(job_id, row[0]) if row else None

    def recent(self, limit: int, *, scope: str) -> Sequence[JobRow]:
        """Return the newest jobs at, below or above a scope, the last started ones first."""
        with self._database.read() as connection:
            return jobs_seen(connection.execute("SELECT id, body FROM jobs ORDER BY row DESC"), scope, limit)

    def remains(self, object_ids: Sequence[str]) -> int:
        """Count the jobs that still name one of these objects."""
        return jobs_naming(self._database.rows("SELECT id, body FROM jobs"), object_ids)

    def is_prepared(self, connection: apsw.Connection) -> bool:
        """Return whether the table exists."""
        return next(connection.execute("SELECT 1 FROM sqlite_schema WHERE name = 'jobs'"), None) is not None

    def prepare(self, connection: apsw.Connection) -> None:
        """Create the table if it is missing."""
        connection.execute(JOBS)

    def follow(self, connection: apsw.Connection, changes: Sequence[Change]) -> None:
        """Store the jobs that wait for this transaction, and remove data about erased objects from all jobs."""
        for job, row, ids in self.come_due(changes):
            _keep_job(connection, job, row, ids)
        if erased := [change for change in changes if change.after is None]:
            self._forget(connection, erased)

    def _forget(self, connection: apsw.Connection, erased: Sequence[Change]) -> None:
        jobs = {job: job_of(job, body) for job, body in connection.execute("SELECT id, body FROM jobs")}
        ids = frozenset(change.object_id for change in erased)
        origins = {change.before.origin for change in erased if isinstance(change.before, Source)}
        for job, row in changed_by_erasure(jobs, ids, origins).items():
            connection.execute("UPDATE jobs SET body = ? WHERE id = ?", (packed_job(job, row), job))


def _keep_job(connection: apsw.Connection, job_id: str, row: JobRow, ids: Sequence[str]) -> None:
    """Store a job without data about those of the ids that are erased."""
    remaining = without_erased(row, _erased_among(connection, ids))
    connection.execute(
        "INSERT INTO jobs(id, body) VALUES(?, ?) ON CONFLICT(id) DO UPDATE SET body = excluded.body",
        (job_id, packed_job(job_id, remaining)),
    )


def _erased_among(connection: apsw.Connection, ids: Sequence[str]) -> Set[str]:
    """Return the ids that are in the audit log, but no longer in the ledger."""
    if not ids:
        return frozenset()
    sql = (
        "SELECT value FROM json_each(?) WHERE NOT EXISTS (SELECT 1 FROM objects WHERE id = value) "
        "AND EXISTS (SELECT 1 FROM audit WHERE target = value)"
    )
    return frozenset(identity for (identity,) in connection.execute(sql, (json.dumps(ids),)))
