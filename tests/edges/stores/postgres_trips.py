"""How often tests go to the Postgres server."""

from contextlib import contextmanager

import psycopg


@contextmanager
def trips(monkeypatch):
    """Count the round trips: statements sent one by one, and pipelines of several."""
    made, execute, leave = [], psycopg.Connection.execute, psycopg.Pipeline.__exit__

    def counting(self, query, *arguments, **options):
        if self._pipeline is None:
            made.append(query)
        return execute(self, query, *arguments, **options)

    def leaving(self, *error):
        made.append("pipeline")
        return leave(self, *error)

    with monkeypatch.context() as patched:
        patched.setattr(psycopg.Connection, "execute", counting)
        patched.setattr(psycopg.Pipeline, "__exit__", leaving)
        yield made
