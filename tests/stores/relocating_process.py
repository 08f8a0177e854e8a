"""A move to another server that ends itself with `kill -9`: `DIRECTORY SPACE SERVER STEP WHEN`.

STEP `tell`: when the progress WHEN is told. Another STEP is a function of the move: `before` it is called, or `after`.
"""

import os
import signal
import sys
from pathlib import Path

from treering.stores.postgres import placing, relocating
from treering.stores.postgres.connection.directory import Directory
from treering.stores.postgres.connection.target import database_of
from treering.system.address import parse_address
from treering.system.machine import SystemClock
from treering.testing.fakes import HashingEmbedder

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
