import threading
import time
from contextlib import closing
from itertools import pairwise

from treering.stores.sqlite.database import Database

WRITERS = 5
WRITES = 30


def test_of_many_writers_none_waits_while_another_has_many_turns(tmp_path):
    path = str(tmp_path / "space.db")
    turns, everybody = [], threading.Barrier(WRITERS)

    def write(name):
        with closing(Database(path)) as database:
            everybody.wait(30)
            for _ in range(WRITES):
                with database.write() as connection:
                    connection.execute("PRAGMA user_version = 1")
                    turns.append(name)
                    time.sleep(0.01)
                time.sleep(0.004)  # as long as it takes to make ready what is written next

    threads = [threading.Thread(target=write, args=(name,)) for name in range(WRITERS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert longest_wait(turns) < 12 * WRITERS


def longest_wait(turns):
    """Return the most turns of others that anybody who still had to write saw pass by."""
    waits = []
    for name in set(turns):
        own = [-1, *(place for place, other in enumerate(turns) if other == name)]
        waits += [later - earlier - 1 for earlier, later in pairwise(own)]
    return max(waits)
