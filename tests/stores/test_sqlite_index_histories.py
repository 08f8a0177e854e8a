"""Catching up equals rebuilding: whatever happens to a space, and in whatever order."""

from collections.abc import Iterator
from datetime import UTC, datetime

import apsw
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule
from index_stage import EMBEDDER, open_space

from treering.core.errors import TreeringError
from treering.core.evidence import Turn
from treering.core.patch import MoveScope
from treering.retrieval.extraction.built_in import BuiltInExtractor
from treering.retrieval.index.ties import unpack_ties
from treering.stores.sqlite.index.replay import SqliteReplay
from treering.stores.sqlite.index.tables import FULL_TEXT, create_tables

# Few texts, so that several passages share one and its vector.
_TEXTS = st.lists(st.sampled_from(["Bees hum.", "Ants dig_hills.", "Moths fly.", "", "巣箱"]), max_size=3, unique=True)
_TURNS = st.lists(st.sampled_from(["Bees hum.", "Ants came yesterday.", "In May 2022."]), max_size=3, unique=True)
_TIMES = st.none() | st.just(datetime(2023, 5, 8, tzinfo=UTC))
_SCOPES = st.sampled_from(["/", "/a", "/a/b"])


class Histories(RuleBasedStateMachine):
    def __init__(self):
        super().__init__()
        self.space = open_space()
        self.items = []

    @rule(texts=_TEXTS, scope=_SCOPES, title=st.sampled_from(["Bees hum.", "Notes"]))
    def add_source(self, texts, scope, title):
        source = self.space.make.source(*texts, origin=f"o{len(self.items)}", title=title, scope=scope)
        self.add(source)

    @rule(texts=_TURNS, scope=_SCOPES, at=_TIMES)
    def add_talk(self, texts, scope, at):
        talk = self.space.make.source(*texts, origin=f"o{len(self.items)}", kind="conversation", scope=scope)
        parts = [part.model_copy(update={"locator": Turn(turn=part.position, at=at)}) for part in talk.segments]
        self.add(talk.model_copy(update={"segments": tuple(parts)}))

    @rule(what=st.sampled_from(["Bees", "Ants"]), scope=_SCOPES)
    def add_knowledge(self, what, scope):
        self.add(self.space.make.fact(what, "like", len(self.items), scope=scope))

    @precondition(lambda self: self.items)
    @rule(data=st.data(), texts=_TEXTS)
    def read_again(self, data, texts):
        source = data.draw(st.sampled_from(self.items))
        if source.type == "source":
            self.attempt(lambda: self.space.reread(source, *texts))

    @precondition(lambda self: self.items)
    @rule(data=st.data(), title=st.sampled_from(["Bees hum.", "Notes", "Other"]), note=st.integers(0, 2))
    def change(self, data, title, note):
        item = data.draw(st.sampled_from(self.items))
        extra = {"metadata": {"note": note}} if item.type == "source" else {}
        self.attempt(lambda: self.space.update(item, title=title, **extra))

    @precondition(lambda self: self.items)
    @rule(data=st.data(), to=st.sampled_from(["active", "archived", "invalid", "contested"]))
    def move(self, data, to):
        item = data.draw(st.sampled_from(self.items))
        self.attempt(lambda: self.space.move(item, to))

    @precondition(lambda self: self.items)
    @rule(data=st.data(), to=_SCOPES)
    def move_scope(self, data, to):
        item = data.draw(st.sampled_from(self.items))
        revision = self.space.revision(item)
        self.attempt(lambda: self.space.commit(MoveScope(id=item.id, expected_revision=revision, to=to)))

    @precondition(lambda self: self.items)
    @rule(data=st.data())
    def erase(self, data):
        item = data.draw(st.sampled_from(self.items))
        self.attempt(lambda: self.space.erase(item))
        self.items = [other for other in self.items if other.id in self.space.ledger.heads([other.id])]

    @rule(count=st.integers(1, 3))
    def embed_some(self, count):
        waiting = self.space.index.vectors.pending(count)
        vectors = EMBEDDER.embed_documents([item.text for item in waiting])
        self.space.index.vectors.add({item.text_hash: v for item, v in zip(waiting, vectors, strict=True)})

    @invariant()
    def the_index_finds_nothing_to_say(self):
        assert self.space.index.upkeep.differences() == []

    @invariant()
    def the_table_in_memory_holds_what_the_file_does(self):
        found = self.space.near("bees", limit=1_000)
        sql = (
            "SELECT object_id FROM passages p JOIN passage_vectors v ON v.text_id = p.text_id "
            "WHERE p.live = 1 AND p.until_seq IS NULL"
        )
        assert sorted(found) == sorted(identity for (identity,) in self.space.database.rows(sql))

    def teardown(self):
        with self.space.database.write() as connection:
            grown = everything(connection)
            SqliteReplay(connection, BuiltInExtractor()).rebuild()
            assert everything(connection) == grown
        self.space.ledger.close()

    def add(self, item):
        if self.attempt(lambda: self.space.commit(item)) and self.space.ledger.heads([item.id]):
            self.items.append(item)

    def attempt(self, action):
        """Do what the rules of the objects may refuse."""
        try:
            return action()
        except TreeringError:
            return None


def everything(connection: apsw.Connection) -> dict[str, list]:
    """Return all the projection holds, with rows named by what they are and not by their key."""
    create_tables(connection)
    names = {
        key: (identity, part, seq)
        for key, identity, part, seq in connection.execute("SELECT key, object_id, part, from_seq FROM passages")
    }
    rows = connection.execute(
        "SELECT p.*, scope, hash FROM passages p JOIN passage_scopes s ON s.id = p.scope_id "
        "JOIN passage_texts t ON t.id = p.text_id"
    )
    without = {"key", "scope_id", "text_id"}
    columns = [name for name, _ in rows.get_description()] if (first := next(rows, None)) else []
    found = [first, *rows] if first else []
    passages = [[v for c, v in zip(columns, row, strict=True) if c not in without] for row in found]
    queue = connection.execute(
        "SELECT m.name, hash, priority FROM vector_queue q JOIN passage_texts t ON t.id = q.text_id "
        "JOIN passage_models m ON m.id = q.model_id"
    )
    vectors = connection.execute("SELECT hash, vector FROM passage_vectors v JOIN passage_texts t ON t.id = v.text_id")
    contents = {
        "passages": passages,
        "queue": list(queue),
        "vectors": list(vectors),
        "scopes": list(connection.execute("SELECT scope FROM passage_scopes")),
    }
    contents["ties"] = [(names[key], ties) for key, ties in ties_by_name(connection)]
    contents["nodes"] = list(connection.execute("SELECT name, passages FROM graph_nodes"))
    for table, columns in _OF_PASSAGES.items():
        found = connection.execute(f"SELECT key, {columns} FROM {table}")
        contents[table] = [(names[key], *row) for key, *row in found]
    for table in FULL_TEXT:
        connection.execute(f"CREATE VIRTUAL TABLE temp.instances USING fts5vocab(main, {table}, 'instance')")
        found = list(connection.execute("SELECT doc, term, col, offset FROM temp.instances"))
        contents[table] = [(names[key], *row) for key, *row in found]
        connection.execute("DROP TABLE temp.instances")
    return {name: sorted(rows, key=repr) for name, rows in contents.items()}


_OF_PASSAGES = {"passage_metadata": "name, value", "passage_endings": "ending", "passage_days": "first, last"}


def ties_by_name(connection: apsw.Connection) -> Iterator[tuple[int, list]]:
    """Return what each record of the graph says, with names for numbers."""
    nodes = dict(connection.execute("SELECT id, name FROM graph_nodes"))
    for key, body in connection.execute("SELECT key, body FROM graph_passages"):
        ties = unpack_ties(body)
        pairs = [(nodes[one], nodes[other], tie) for one, other, tie in (*ties.facts, *ties.pairs)]
        yield key, sorted([*((nodes[number], tie) for number, tie in ties.nodes), *pairs], key=repr)


TestHistories = Histories.TestCase
TestHistories.settings = settings(max_examples=25, stateful_step_count=15, deadline=None)
