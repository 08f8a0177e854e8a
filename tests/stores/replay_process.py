"""A process that makes the index of a space anew, one object at a time, and says after each that it is kept."""

import sys

from treering.stores.sqlite.database import Database
from treering.stores.sqlite.index.index import SqliteIndex
from treering.stores.sqlite.ledger.ledger import SqliteLedger
from treering.testing.fakes import SteppingClock

database = Database(sys.argv[1])
index = SqliteIndex(database, model_id="hashing/64", dimension=64, most_at_once=0, step_seconds=0)
ledger = SqliteLedger(database, clock=SteppingClock(), followers=[index])
while (behind := index.upkeep.advance()).waiting:
    sys.stdout.write(f"{behind.done}\n")
    sys.stdout.flush()
