"""A process of its own that works on a space until it is stopped, fails, or has done enough.

`write PLACE SEED COUNT` prints the ids of what it wrote after each commit returned; `insist PLACE SEED COUNT` does so,
too, and repeats a commit that found no server; `read PLACE SEED STOP` reads until the file STOP exists;
`fill PLACE SEED BYTES` writes until files may not grow any more, then prints the error's code. PLACE: a path, or the
address of a space.
"""

import logging
import resource
import sys
import time
from pathlib import Path

from treering.core.errors import TreeringError, Unavailable
from treering.core.patch import Update
from treering.ports.ledger import Ledger, Selection
from treering.stores.sqlite.database import Database
from treering.stores.sqlite.ledger.ledger import SqliteLedger
from treering.system.address import parse_address
from treering.testing.builders import Builder
from treering.testing.fakes import SteppingClock


def write(ledger: Ledger, make: Builder, count: int) -> None:
    for number in range(count):
        source = make.source(f"Text {number} " * 20, origin=make.node("x").id)
        fact = make.fact(source.id, "number", number, make.evidence(source))
        update = Update(id=source.id, expected_revision=1, changes={"title": f"Number {number}"})
        ledger.commit(make.patch(source, fact))
        ledger.commit(make.patch(update))
        say(source.id, fact.id)


def insist(ledger: Ledger, make: Builder, count: int) -> None:
    """Write so often that nothing is left out, and nothing twice, whatever becomes of the server."""
    for number in range(count):
        node = make.node(f"Node {number} {make.node('x').id}")
        patch = make.patch(node)
        deadline = time.monotonic() + 120
        while True:
            try:
                ledger.commit(patch, idempotency_key=patch.id)
            except Unavailable:
                assert time.monotonic() < deadline
                time.sleep(0.05)
            else:
                break
        say(node.id)


def read(ledger: Ledger, stop: Path) -> None:
    while not stop.exists():
        before = ledger.sequence()
        assert [event.seq for event in ledger.events(limit=before)] == list(range(1, before + 1))
        assert len(list(ledger.select(Selection(types=("source",))))) * 3 >= before - 3
        ledger.verify()


def fill(ledger: Ledger, make: Builder, size: int) -> None:
    if size:
        resource.setrlimit(resource.RLIMIT_FSIZE, (size, size))
    try:
        write(ledger, make, 100_000)
    except TreeringError as error:
        say(error.code)
    ledger.verify()


def open_ledger(place: str, clock: SteppingClock) -> Ledger:
    if not place.startswith("postgresql:"):
        return SqliteLedger(Database(place), clock=clock)
    from treering.extensions.postgres.connection.space import PostgresSpace
    from treering.extensions.postgres.connection.target import target_of
    from treering.extensions.postgres.ledger.ledger import PostgresLedger

    logging.getLogger("psycopg").setLevel(logging.ERROR)  # which tells of each connection that is lost
    return PostgresLedger(PostgresSpace(target_of(parse_address(place, named=Path()))), clock=clock)


def say(*words: str) -> None:
    sys.stdout.write(" ".join(words) + "\n")
    sys.stdout.flush()


def main() -> None:
    role, place, seed, last = sys.argv[1:]
    clock = SteppingClock(seed=seed)
    ledger = open_ledger(place, clock)
    say("ready")
    match role:
        case "write":
            write(ledger, Builder(clock), int(last))
        case "insist":
            insist(ledger, Builder(clock), int(last))
        case "read":
            read(ledger, Path(last))
        case "fill":
            fill(ledger, Builder(clock), int(last))
    ledger.close()


if __name__ == "__main__":
    main()
