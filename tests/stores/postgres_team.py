"""A directory with servers for tests: databases of the tests' server, each of which stands for a server of its own."""

from contextlib import closing

import psycopg
from postgres_spaces import new_space

import treering
from treering.stores.postgres.connection.directory import Directory
from treering.stores.postgres.connection.schema import migrate
from treering.stores.postgres.connection.target import database_of
from treering.stores.postgres.placing import add_server
from treering.system.address import parse_address
from treering.testing.builders import Builder
from treering.testing.fakes import SteppingClock


class Databases:
    """New databases that have the tables already: copies of one, which is made in a fraction of the time."""

    def __init__(self, server):
        self._server = server
        self._made = []
        self._template = self.new()
        with psycopg.connect(server.url(self._template), autocommit=True) as connection:
            migrate(connection)

    def new(self):
        """Make a database and return its name."""
        name = f"d{new_space()}"
        template = f"TEMPLATE {self._template} STRATEGY FILE_COPY" if self._made else ""
        self._run(f"CREATE DATABASE {name} OWNER treering_owner {template}")
        self._made.append(name)
        return name

    def drop(self, names):
        """Remove databases."""
        for name in names:
            self._run(f"DROP DATABASE {name} WITH (FORCE)")
            self._made.remove(name)

    def made_since(self, count):
        """Return the databases that were made behind the first so many."""
        return self._made[count:]

    def __len__(self):
        return len(self._made)

    def _run(self, sql):
        with psycopg.connect(self._server.url("postgres", "postgres"), autocommit=True) as owner:
            owner.execute(sql)


class Team:
    """A directory with two servers, `a` and `b`. More are added with `add`."""

    def __init__(self, server, databases):
        self._server = server
        self.name = databases.new()
        self.directory = Directory(database_of(parse_address(server.url(self.name), named=server.folder)))
        self.databases = {}
        for one in ("a", "b"):
            self.add(one, databases.new())

    def add(self, name, database):
        self.databases[name] = database
        return add_server(self.directory, name, self._server.url(database))

    def address(self, space, **options):
        return self._server.url(self.name, space=space, directory="on", **options)

    def own_address(self, server, space):
        return self._server.url(self.databases[server], space=space)

    def fill(self, space, count=1):
        """Commit some nodes."""
        with closing(treering.open_ledger(self.address(space))) as ledger:
            make = Builder(SteppingClock(seed=space))
            for number in range(count):
                ledger.commit(make.patch(make.node(f"Node {number}")))

    def counts(self):
        return {server.name: server.spaces for server in self.directory.servers()}
