"""A move to another server that ends itself with `kill -9`: `DIRECTORY SPACE SERVER STEP WHEN`.

STEP `tell`: when the progress WHEN is told. Another STEP is a function of the move: `before` it is called, or `after`.
"""

import os
import signal
import sys
from pathlib import Path

from treering.edges.address import parse_address
from treering.edges.clock import SystemClock
from treering.edges.stores.postgres import placing, relocating
from treering.edges.stores.postgres.directory import Directory
from treering.edges.stores.postgres.target import database_of
from treering.testing.hashing_embedder import HashingEmbedder

address, space, server, step, when = sys.argv[1:]


def kill():
    os.kill(os.getpid(), signal.SIGKILL)


def killing(function):
    def call(*given, **named):
        if when == "after":
            function(*given, **named)
        kill()

    return call


def told(what, _done, _total):
    if (step, when) == ("tell", what):
        kill()


for place in (relocating, placing, Directory):
    if hasattr(place, step):
        setattr(place, step, killing(getattr(place, step)))

model = HashingEmbedder()
directory = Directory(database_of(parse_address(address, named=Path())))
relocating.relocate(directory, space, server, clock=SystemClock(), model=(model.model_id, model.dimension), told=told)
