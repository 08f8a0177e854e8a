"""A process of its own that writes to spaces and searches them until a file exists: `ADDRESS... STOP`.

It prints the place of the space and the id of each source once its commit returned. A call that finds no server is
repeated for two minutes.
"""

import logging
import os
import sys
import time
from collections.abc import Callable
from contextlib import ExitStack
from itertools import count
from pathlib import Path
from typing import TypeVar

import treering
from treering.core.errors import Unavailable
from treering.testing.builders import Builder
from treering.testing.fakes import HashingEmbedder, SteppingClock

Answer = TypeVar("Answer")


def insist(call: Callable[[], Answer]) -> Answer:
    """Repeat a call while the server is unavailable, and report why to the error output."""
    deadline = time.monotonic() + 120
    while True:
        try:
            return call()
        except Unavailable as error:
            if time.monotonic() > deadline:
                raise
            sys.stderr.write(f"{error}\n")
            time.sleep(0.1)


def work(spaces: list[treering.Space], stop: Path) -> None:
    make = Builder(SteppingClock(seed=str(os.getpid())))
    for number in count():
        place = number % len(spaces)
        write_and_find(spaces[place], make, f"{number} of {os.getpid()}", place)
        if stop.exists():
            return


def write_and_find(space: treering.Space, make: Builder, name: str, place: int) -> None:
    source = make.source(f"Bees hum in hive {name}.", origin=f"{name}.md")
    patch = make.patch(source)
    insist(lambda: space.engine.ledger.commit(patch, idempotency_key=patch.id))
    sys.stdout.write(f"{place} {source.id}\n")
    sys.stdout.flush()
    hits = insist(lambda: space.query("search", input={"text": f"hive {name}"})).hits
    assert source.id in {hit.object_id for hit in hits}


def main() -> None:
    *addresses, stop = sys.argv[1:]
    logging.getLogger("psycopg").setLevel(logging.ERROR)  # which reports each lost connection
    with ExitStack() as opened:
        spaces = [
            opened.enter_context(treering.open(address, background=False, embedder=HashingEmbedder()))
            for address in addresses
        ]
        work(spaces, Path(stop))


if __name__ == "__main__":
    main()
