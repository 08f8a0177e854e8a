"""A process that migrates a database and kills itself before a statement: `ADDRESS NUMBER`."""

import os
import signal
import sys

import psycopg

from treering.extensions.postgres.connection.schema import migrate


class Dying(psycopg.Connection):
    """A connection whose process ends, without a word, before the statement of a number."""

    left = 0

    def execute(self, *given, **options):
        self.left -= 1
        if not self.left:
            os.kill(os.getpid(), signal.SIGKILL)
        return super().execute(*given, **options)


if __name__ == "__main__":
    with Dying.connect(sys.argv[1], autocommit=True) as connection:
        connection.left = int(sys.argv[2])
        migrate(connection)
