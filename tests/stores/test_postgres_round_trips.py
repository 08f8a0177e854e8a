"""However much one read asks for, the ledger on Postgres needs few statements: each is a round trip to a server."""

import random
import re
from contextlib import closing, suppress

import numpy as np
import psycopg
import pytest
from postgres_spaces import new_space, open_target, sent_by

import postgres_server
from postgres_server import needs_own_server
from space_parts import note, open_space
from treering.core.filters import Compare
from treering.core.patch import AddLink, Author, Link, Update
from treering.core.policy import Policy
from treering.extensions.postgres.connection.schema import TABLES
from treering.extensions.postgres.connection.transactions import Transaction
from treering.extensions.postgres.index.index import PostgresIndex
from treering.extensions.postgres.index.vector_queue import PostgresVectorClaims
from treering.extensions.postgres.ledger.ledger import PostgresLedger, PostgresSnapshot
from treering.extensions.postgres.ledger.log_tables import PostgresLedgerLog
from treering.extensions.postgres.ledger.object_reads import ObjectReads
from treering.ports.ledger import ObjectRequest, Selection
from treering.ports.passages import Reach
from treering.ports.search import Lag, TextRequest
from treering.retrieval.index.rounds import lag_of
from treering.testing.builders import Builder
from treering.testing.fakes import HashingEmbedder, SteppingClock
from treering.testing.index_contract import EMBEDDER

pytestmark = needs_own_server
_MANY = 40


@pytest.fixture
def filled(server):
    """A ledger with many sources and facts, and their ids."""
    clock = SteppingClock()
    make = Builder(clock)
    with closing(open_target(server, new_space())) as space:
        ledger = PostgresLedger(space, clock=clock, server_time=False)
        sources = [make.source(f"Text {number}.", origin=f"{number}.md") for number in range(_MANY)]
        facts = [make.fact(f"thing {one.id}", "number", 1, make.evidence(one)) for one in sources]
        links = [
            AddLink(link=Link(type="about", source=fact.id, target=source.id))
            for fact, source in zip(facts, sources, strict=True)
        ]
        ledger.commit(make.patch(*sources, *facts, *links))
        yield ledger, sources, facts, make


def test_a_read_of_many_objects_segments_dependents_and_links_is_a_few_statements(filled, monkeypatch):
    ledger, sources, facts, _ = filled
    ids = tuple(one.id for one in sources)
    places = tuple((one.id, one.segments[0].segment_id) for one in sources)
    wanted = ObjectRequest(
        heads=ids, objects=ids, segments=places, dependents=ids, referrers=ids, links=tuple(one.id for one in facts)
    )
    with sent_by(monkeypatch) as sent:
        found, again = ledger.read([wanted, wanted])
    assert found == again
    assert found.objects.keys() >= {*ids, *(fact.id for fact in facts)}
    assert len(found.segments) == len(found.links) == _MANY
    assert len(sent.statements) <= 17


def test_selecting_and_following_many_objects_is_a_few_statements(filled, monkeypatch):
    ledger, _, _, _ = filled
    with sent_by(monkeypatch) as sent:
        assert len(list(ledger.select(Selection()))) == 2 * _MANY
    assert len(sent.statements) <= 9
    assert len(sent.trips) <= 6
    with sent_by(monkeypatch) as sent:
        assert len(ledger.changes(0, 1_000)) == 2 * _MANY
    assert len(sent.statements) <= 9
    assert len(sent.trips) <= 6


def test_patch_is_written_with_one_statement_per_table(filled, monkeypatch):
    ledger, _, _, make = filled
    many = [
        make.source(*(f"More {number} {part}." for part in range(5)), origin=f"more {number}") for number in range(20)
    ]
    with sent_by(monkeypatch) as sent:
        ledger.commit(make.patch(*many))
    assert sum(query.startswith("INSERT") for query in sent.statements) <= 7


@pytest.fixture
def searched(server):
    """A ledger with an index of a few sources, and a builder."""
    clock = SteppingClock()
    with closing(open_target(server, new_space())) as space:
        index = PostgresIndex(space, model_id=EMBEDDER.model_id, dimension=EMBEDDER.dimension)
        ledger = PostgresLedger(space, clock=clock, server_time=False, followers=[index])
        make = Builder(clock)
        ledger.commit(make.patch(*(make.source(f"Bees hum in hive_{n}.", origin=f"{n}.md") for n in range(_MANY))))
        yield ledger, index, make


def test_the_index_of_a_patch_of_many_objects_is_a_few_statements_for_each_table(searched, monkeypatch):
    ledger, _, make = searched
    sent = {}
    for count in (1, 20):
        items = [make.source(f"Ants dig {count} {n}.", origin=f"{count} {n}.md") for n in range(count)]
        with sent_by(monkeypatch) as sent[count]:
            ledger.commit(make.patch(*items))
    # The ledger plans object by object, the index asks and writes for all together: once more for names it knows.
    assert count_of(sent[20], "passage") <= count_of(sent[1], "passage") + 1 <= 20


def test_a_commit_with_its_index_is_four_round_trips(searched, monkeypatch):
    ledger, index, make = searched
    one, many = [make.node("New")], [make.source(f"New {number}.", origin=f"new {number}") for number in range(10)]
    for items in (one, many):
        with sent_by(monkeypatch) as sent:
            ledger.commit(make.patch(*items))
        assert len(sent.trips) == 4, sent.trips
        assert len(sent.statements) <= 28 + 2 * len(items)
    assert not index.upkeep.differences()


def test_a_commit_with_quick_vectors_is_four_round_trips_too_once_the_model_is_known(server, monkeypatch):
    make = Builder(SteppingClock())
    with closing(open_target(server, new_space())) as space:
        index = PostgresIndex(space, model_id="encoder", dimension=4, quick=EMBEDDER)
        ledger = PostgresLedger(space, clock=SteppingClock(), server_time=False, followers=[index])
        for title in ("First", "Second"):
            ledger.commit(make.patch(make.node(title)))
        with sent_by(monkeypatch) as sent:
            ledger.commit(make.patch(make.node("Third")))
        assert len(sent.trips) == 4, sent.trips
        assert not any("DELETE FROM vector_queue" in statement for statement in sent.statements)
        assert index.quick.lag() == Lag(0, 3)


def test_the_number_of_a_model_is_not_remembered_of_a_commit_that_failed(server):
    make = Builder(SteppingClock())
    with closing(open_target(server, new_space())) as space:
        index = PostgresIndex(space, model_id="encoder", dimension=4, quick=EMBEDDER)
        ledger = PostgresLedger(space, clock=SteppingClock(), server_time=False, followers=[index])
        with suppress(KeyError), space.write() as transaction:
            for number in (1, 2):
                index.quick.embed_at_once(EMBEDDER, transaction, {number: "Bees hum."})
            raise KeyError
        other = PostgresIndex(space, model_id="encoder", dimension=4, quick=HashingEmbedder(dimension=8))
        PostgresLedger(space, clock=SteppingClock(), server_time=False, followers=[other]).commit(
            make.patch(make.node("First"))
        )
        ledger.commit(make.patch(make.node("Second")))
        assert index.quick.lag() == Lag(1, 2)
        assert other.quick.lag() == Lag(1, 2)


def test_searches_by_text_are_a_few_statements_however_many_are_asked_together(searched, monkeypatch):
    _, index, _ = searched
    requests = [
        TextRequest(Reach("/"), 5, words=("bee", "hum", f"word{n}"), place=f"{n}.md", counted=("hive",))
        for n in range(3)
    ]
    index.text.search(requests)
    with sent_by(monkeypatch) as one:
        index.text.search(requests[:1])
    with sent_by(monkeypatch) as all_of_them:
        index.text.search(requests)
    assert len(one.statements) <= 9
    assert len(one.trips) <= 3
    assert len(all_of_them.statements) <= len(one.statements) + 2 * 2
    assert len(all_of_them.trips) == len(one.trips)


def test_waiting_count_follows_the_log(searched, monkeypatch):
    ledger, index, make = searched
    assert index.vectors.lag() == Lag(_MANY, _MANY)
    ledger.commit(make.patch(make.source("Ants dig.", origin="a.md"), make.source("Wasps sting.", origin="w.md")))
    some = index.vectors.pending(3)
    made = EMBEDDER.embed_documents([one.text for one in some])
    index.vectors.add({one.text_hash: vector for one, vector in zip(some, made, strict=True)})
    with sent_by(monkeypatch) as sent:
        assert index.vectors.lag() == Lag(_MANY - 1, _MANY + 2)
    assert not any("JOIN passages p" in statement for statement in sent.statements)
    assert len(sent.trips) == 1


def test_quick_vector_count_follows_the_log(server, monkeypatch):
    clock = SteppingClock()
    make = Builder(clock)
    with closing(open_target(server, new_space())) as space:
        index = PostgresIndex(space, model_id="encoder", dimension=4, quick=EMBEDDER)
        ledger = PostgresLedger(space, clock=clock, server_time=False, followers=[index])
        ledger.commit(make.patch(*(make.source(f"Bees hum in hive_{n}.", origin=f"{n}.md") for n in range(5))))
        assert index.quick.lag() == Lag(0, 5)
        ledger.commit(make.patch(make.source("Ants dig.", origin="a.md"), make.source("Wasps sting.", origin="w.md")))
        [one] = index.vectors.pending(1)
        index.vectors.add({one.text_hash: np.array([1, 0, 0, 0], np.float32)})
        with sent_by(monkeypatch) as sent:
            assert index.quick.lag() == Lag(0, 6)
        assert not any("JOIN passages p" in statement for statement in sent.statements)
        assert len(sent.trips) == 1
        assert lag_of(index) == Lag(6, 7, quick=6)


def test_a_note_does_not_read_all_that_waits_for_a_vector(server, queued, monkeypatch):
    space, index = queued
    assert index.vectors.lag() == Lag(_MANY, _MANY)
    make = Builder(SteppingClock(seed="later"))
    PostgresLedger(space, clock=SteppingClock(), server_time=False, followers=[index]).commit(
        make.patch(make.source("Ants dig.", origin="ants.md"))
    )
    with psycopg.connect(server.url(), autocommit=True) as owner:
        owner.execute("ANALYZE treering.vector_queue")
    with sent_by(monkeypatch) as sent:
        index.vectors.lag()
    [asked] = [statement for statement in sent.statements if "vector_queue" in statement]
    plan = generic_plan(space, asked)
    scans = [line for line in plan.splitlines() if " on vector_queue" in line and "Scan" in line]
    assert scans
    assert all("pkey" in scan for scan in scans), plan


def test_a_note_looks_up_in_the_queue_only_its_own_texts_to_keep_their_quick_vectors(server, monkeypatch):
    make = Builder(SteppingClock())
    with closing(open_target(server, new_space())) as space:
        index = PostgresIndex(space, model_id="encoder", dimension=4, quick=EMBEDDER)
        ledger = PostgresLedger(space, clock=SteppingClock(), server_time=False, followers=[index])
        ledger.commit(make.patch(*(make.source(f"Bees hum in hive_{n}.", origin=f"{n}.md") for n in range(_MANY))))
        with psycopg.connect(server.url(), autocommit=True) as owner:
            owner.execute("ANALYZE treering.vector_queue")
        with sent_by(monkeypatch) as sent:
            ledger.commit(make.patch(make.source("Ants dig.", origin="ants.md")))
        [kept] = [each for each in sent.statements if each.startswith("INSERT INTO passage_vectors")]
        lines = generic_plan(space, kept).splitlines()
        scans = [place for place, line in enumerate(lines) if " on vector_queue" in line]
        assert scans
        assert all("text_id" in lines[place + 1] for place in scans), "\n".join(lines)


NAMED_ONE = Selection("/", where=Compare("title", "eq", "One"))


def generic_plan(space, statement):
    """Return the plan for all values, which transactions use, of a statement as it was sent."""
    count = max(map(int, re.findall(r"[$](\d+)", statement)))
    with space.read() as transaction:
        transaction.later(f"PREPARE sent AS {statement}")
        lines = transaction.column(f"EXPLAIN EXECUTE sent({', '.join(['NULL'] * count)})")
        transaction.later("DEALLOCATE sent")
        transaction.flush()
    return "\n".join(lines)


def count_of(sent, name):
    return sum(name in query for query in sent.statements)


def plans_of(monkeypatch, ask):
    """Return how the server would run the queries that `ask` makes; they find nothing."""
    plans, rows = [], Transaction.rows

    def explained(self, sql, /, **bindings):
        plans.append("\n".join(line for (line,) in rows(self, f"EXPLAIN {sql}", **bindings)))
        return []

    with monkeypatch.context() as patched:
        patched.setattr(Transaction, "rows", explained)
        ask()
    return plans


@pytest.mark.parametrize(
    ("names", "ask"),
    [
        (("origin", "scope"), lambda snapshot: snapshot.objects.source_by_origin("/", "1.md")),
        (("origin", "scope"), lambda snapshot: snapshot.sources_at("/", ["1.md", "2.md"])),
        (("origin", "scope"), lambda snapshot: snapshot.sources("/", "src")),
        (("slug", "scope"), lambda snapshot: snapshot.objects.node_by_slug("/", "topic", "one")),
        (("scope",), lambda snapshot: snapshot.scopes("/team")),
        (("scope",), lambda snapshot: snapshot.candidates(Selection("/team"), "", 9)),
        (("title",), lambda snapshot: snapshot.candidates(NAMED_ONE, "", 9)),
        (("key",), lambda snapshot: list(snapshot.log.keys("erased"))),
    ],
)
def test_names_are_found_through_an_index_by_a_role_that_row_level_security_holds(
    server, filled, monkeypatch, names, ask
):
    ledger, _, _, make = filled
    space = ledger._space
    # Of few objects in few scopes an index by scope saves nothing, and whether it is used would be chance.
    ledger.commit(make.patch(*(make.source("Text.", origin="o.md", scope=f"/{n}") for n in range(200))))
    with psycopg.connect(server.url(), autocommit=True) as owner:
        owner.execute("ANALYZE treering.objects")
    with space.read() as transaction:
        assert not transaction.first("SELECT rolbypassrls OR rolsuper FROM pg_roles WHERE rolname = current_user")
        snapshot = PostgresSnapshot(transaction, ledger._parts)
        [plan] = plans_of(monkeypatch, lambda: ask(snapshot))
    found_by = [line for line in plan.splitlines() if "Index Cond" in line]
    assert any(all(f"{name} " in line for name in names) for line in found_by), plan


@pytest.fixture
def queued(server):
    """A space whose texts all wait, beside 200 spaces that the server knows nothing of yet; and its index."""
    clock = SteppingClock()
    make = Builder(clock)
    sources = [make.source(f"Bees hum in hive_{n}.", origin=f"{n}.md") for n in range(_MANY)]
    open_target(server, new_space()).close()  # which makes the tables
    with psycopg.connect(server.url(user="postgres")) as administrator:
        administrator.execute(
            "INSERT INTO treering.vector_queue(space, model_id, text_id, priority) "
            "SELECT -space, 1, text, text % 6 FROM generate_series(1, 200) space, generate_series(1, 300) text"
        )
    with closing(open_target(server, new_space())) as space:
        index = PostgresIndex(space, model_id=EMBEDDER.model_id, dimension=EMBEDDER.dimension)
        PostgresLedger(space, clock=clock, server_time=False, followers=[index]).commit(make.patch(*sources))
        yield space, index
    with psycopg.connect(server.url(user="postgres")) as administrator:
        administrator.execute("DELETE FROM treering.vector_queue WHERE space < 0")


@pytest.mark.parametrize("others_left", [False, True])
def test_queue_is_read_in_index_order(server, queued, monkeypatch, others_left):
    space, index = queued
    if others_left:
        # Now the server expects one text, and the index by priority is higher than that of the primary key.
        with psycopg.connect(server.url(user="postgres"), autocommit=True) as administrator:
            administrator.execute("DELETE FROM treering.vector_queue WHERE space < 0")
            administrator.execute("VACUUM treering.vector_queue")
    claims = PostgresVectorClaims(space, EMBEDDER.model_id, EMBEDDER.dimension)
    [pending, *_] = plans_of(monkeypatch, lambda: index.vectors.pending(5))
    [claimed, *_] = plans_of(monkeypatch, lambda: claims.claim("somebody", 5, seconds=60))
    for plan in (pending, claimed):
        lines = plan.splitlines()
        scan = next(place for place, line in enumerate(lines) if "Scan" in line and " on vector_queue" in line)
        limit = max(place for place, line in enumerate(lines[:scan]) if "Limit" in line)
        # What stands above the limit may sort the few texts that were read, what stands below it would sort all.
        assert "priority_text_id_idx" in lines[scan], plan
        assert not any("Sort" in line for line in lines[limit:scan]), plan


def test_texts_come_in_the_order_of_the_index_which_is_that_of_their_priority_and_age(queued):
    _, index = queued
    waiting = [one.text for one in index.vectors.pending(_MANY)]
    assert len(waiting) == _MANY
    assert [one.text for one in index.vectors.pending(5)] == waiting[:5]
    assert f"hive_{_MANY - 1}" in waiting[0]


def test_names_too_long_for_an_index_are_found_too(filled):
    ledger, _, _, make = filled
    chance = random.Random(1)
    long = "".join(chr(chance.randrange(0x20000, 0x28000)) for _ in range(900))  # 3,600 bytes, which do not pack well
    source = make.source("A text.", origin=f"{long}/a.md", title=f"A title of {long}", scope="/long")
    ledger.commit(make.patch(source), idempotency_key=long)
    assert list(ledger.sources_at(scope="/long", origins=[source.origin])) == [source.origin]
    assert list(ledger.sources(scope="/long", root=long)) == [source.origin]
    assert ledger.scopes("/") == ["/long"]
    assert [one.id for one in ledger.select(Selection("/long", where=Compare("title", "eq", source.title)))] == [
        source.id
    ]
    with ledger._space.read() as transaction:
        assert ObjectReads(transaction).source_by_origin("/long", source.origin) == source.id
        assert [key for key, _ in PostgresLedgerLog(transaction).keys(long[:10])] == [long]


def test_plans_do_not_depend_on_other_spaces(filled):
    settings = ("plan_cache_mode", "enable_seqscan", "max_parallel_workers_per_gather", "jit")
    for begin in (filled[0]._space.read, filled[0]._space.write, filled[0]._space.beside):
        with begin() as transaction:
            shown = [transaction.first(f"SELECT current_setting('{name}')") for name in settings]
        assert shown == ["force_generic_plan", "off", "0", "off"]


def test_plans_are_renewed_when_a_space_has_grown_fourfold(filled, monkeypatch):
    ledger, _, _, make = filled
    ledger.commit(make.patch(make.node("first")))
    with sent_by(monkeypatch) as sent:
        for number in range(12):
            ledger.commit(make.patch(*(make.node(f"{number} {part}") for part in range(100))))
    assert sent.statements.count("DISCARD PLANS") == 1  # behind event 1,000


def test_a_commit_to_the_ledger_is_two_round_trips(filled, monkeypatch):
    ledger, sources, _, make = filled
    many = [make.source(f"New {number}.", origin=f"new {number}") for number in range(10)]
    facts = [make.fact(f"new {one.id}", "number", 1, make.evidence(one)) for one in sources[:5]]
    for patch in (make.patch(make.node("New")), make.patch(*many), make.patch(*facts)):
        with sent_by(monkeypatch) as sent:
            ledger.commit(patch, idempotency_key=patch.id)
        assert len(sent.trips) == 2, sent.trips
    assert ledger.verify().seq == ledger.sequence()


def test_what_was_asked_ahead_is_asked_again_once_something_was_written(filled):
    ledger, sources, _, _ = filled
    with ledger._space.write() as transaction:
        count = "SELECT count(*) FROM objects WHERE space = %(space)s"
        with transaction.asking_ahead():
            assert transaction.first(count) is None
        before = transaction.first(count)
        transaction.later("DELETE FROM objects WHERE space = %(space)s AND id = %(id)s", id=sources[0].id)
        assert transaction.first(count) == before - 1
        transaction.later("ROLLBACK")
        transaction.flush()


def test_a_decision_about_many_objects_is_as_many_round_trips_as_about_one(searched, monkeypatch):
    ledger, _, make = searched
    decider = Author(actor="reviewer", channel="user", tool="cli")
    trips = {}
    for count in (1, 20):
        patch = make.patch(*(make.node(f"Node {count} {n}") for n in range(count)))
        ledger.propose(patch)
        with sent_by(monkeypatch) as approving:
            ledger.approve(patch.id, by=decider)
        with sent_by(monkeypatch) as reverting:
            ledger.revert(patch.id, by=decider, reason="no")
        trips[count] = len(approving.trips), len(reverting.trips)
    assert trips[20] == trips[1]
    assert max(trips[1]) <= 9


def test_a_thousand_marks_of_answers_cost_a_query_one_row_that_an_index_finds(server, monkeypatch):
    address = server.url(space=new_space())
    with open_space(address, channel="user") as space:
        marked = note(space, "Bees hum at noon.", origin="bees.md")["source_id"]
        space.crystallize("feedback", input={"question": "when do bees hum", "right": [marked]})
        jobs = space.engine.feedback
        row = jobs.find("feedback:/")
        [mark] = row["items"]
        others = [{**mark, "terms": [f"{number:06x}"]} for number in range(999)]
        jobs.save("feedback:/", {**row, "items": [mark, *others]})
        with psycopg.connect(server.url(user="postgres")) as administrator:
            administrator.execute(
                "INSERT INTO treering.jobs(space, id, number, body) SELECT -space, 'job ' || job, job, '' "
                "FROM generate_series(1, 200) space, generate_series(1, 100) job"
            )
        with psycopg.connect(server.url(), autocommit=True) as owner:
            owner.execute("ANALYZE treering.jobs")
        with sent_by(monkeypatch) as sent:
            [hit] = space.query("search", input={"text": "when do bees hum"}, options={"explain": True}).hits
        assert "feedback" in hit.explain
        [asked] = [statement for statement in sent.statements if "FROM jobs" in statement]
    with closing(open_target(server, new_space())) as other:
        plan = generic_plan(other, asked)
    assert "pkey" in next(line for line in plan.splitlines() if " on jobs" in line), plan
    with psycopg.connect(server.url(user="postgres")) as administrator:
        administrator.execute("DELETE FROM treering.jobs WHERE space < 0")


def test_a_note_is_ten_round_trips_of_which_four_write_it(server, monkeypatch):
    with open_space(server.url(space=new_space()), embedder=EMBEDDER) as space:
        for number in range(3):
            with sent_by(monkeypatch) as sent:
                space.ingest("source", input={"text": f"Bees hum in hive {number}.", "origin": f"{number}.md"})
        assert len(sent.trips) == 10, sent.trips  # two of them ask what was erased
        assert sum(trip[-1] == "COMMIT" for trip in sent.trips) == 3


def test_single_query_is_one_round_trip(filled, monkeypatch):
    ledger, sources, _, make = filled
    origins = [one.origin for one in sources]
    with sent_by(monkeypatch) as sent:
        assert ledger.sources_at(scope="/", origins=origins).keys() == set(origins)
        assert ledger.sequence() == 3 * _MANY
        assert ledger.policy == Policy()
    assert len(sent.trips) == 3
    count = "SELECT count(*) FROM objects WHERE space = %(space)s"
    with ledger._space.ask() as transaction:
        assert transaction.first(count) == 2 * _MANY
        assert transaction.row.sequence == 3 * _MANY
        ledger.commit(make.patch(make.node("New")))
        assert transaction.first(count + " AND true") == 2 * _MANY + 1
        assert transaction.row.sequence == 3 * _MANY + 1
        with pytest.raises(RuntimeError, match="ends with its answers"):
            next(transaction.stream("one", count))


_TABLE = re.compile(rf"\b(?:FROM|JOIN|INTO|UPDATE)\s+(?:{'|'.join(TABLES)})\b")


def test_a_note_and_a_search_name_the_partitions_of_their_space_alone(server, monkeypatch):
    with open_space(server.url(space=new_space()), embedder=EMBEDDER) as space, sent_by(monkeypatch) as sent:
        note(space, "Bees hum in the hive.", origin="a.md")
        note(space, "Bees sleep in the hive.", origin="a.md")
        space.embed_pending()
        assert space.query("search", input={"text": "bees"}).hits
        assert not [statement for statement in sent.statements if _TABLE.search(statement)]
        assert len({number for each in sent.statements for number in re.findall(r"FROM passages_(\d)\b", each)}) == 1


@pytest.mark.parametrize(
    "changed",
    [
        "REVOKE INSERT ON treering.objects_{} FROM {}",
        "CREATE POLICY mine ON treering.objects AS RESTRICTIVE USING (true)",
        "ALTER TABLE treering.jobs_{} NO FORCE ROW LEVEL SECURITY",
    ],
)
def test_where_a_partition_is_not_the_same_as_its_table_statements_name_tables(server, monkeypatch, changed):
    name = new_space()
    with closing(open_target(server, name)) as opened:
        part = opened._primary.rows_at.partition
    with psycopg.connect(server.url("tests"), autocommit=True) as owner:
        owner.execute(changed.format(part, postgres_server.OWNER))
    try:
        with open_space(server.url(space=name), embedder=EMBEDDER) as space, sent_by(monkeypatch) as sent:
            note(space, "Bees hum in the hive.", origin="a.md")
            assert space.query("search", input={"text": "bees"}).hits
            assert not [each for each in sent.statements if re.search(r"\b(objects|jobs|passages)_\d", each)]
    finally:
        with psycopg.connect(server.url("tests"), autocommit=True) as owner:
            owner.execute("DROP POLICY IF EXISTS mine ON treering.objects")
            owner.execute(f"ALTER TABLE treering.jobs_{part} FORCE ROW LEVEL SECURITY")
            owner.execute(f"GRANT INSERT ON treering.objects_{part} TO {postgres_server.OWNER}")


def test_verifying_reads_every_revision_once(filled, monkeypatch):
    ledger, sources, _, make = filled
    ledger.commit(make.patch(Update(id=sources[0].id, expected_revision=1, changes={"title": "Another"})))
    with sent_by(monkeypatch) as sent:
        assert ledger.verify().seq == ledger.sequence()
    # They come by a cursor; the one statement looks for rows of objects that have none.
    assert sum(" FROM revisions_" in statement for statement in sent.statements) == 1
    assert len(sent.statements) <= 20


def test_evidence_is_read_without_the_rest_of_its_source(server, monkeypatch):
    make = Builder(SteppingClock())
    with closing(open_target(server, new_space())) as space:
        ledger = PostgresLedger(space, clock=SteppingClock(), server_time=False)
        source = make.source(*(f"Text {number}." for number in range(_MANY)), origin="long.md")
        ledger.commit(make.patch(source))
        fact = make.fact("thing", "number", 1, make.evidence(source))
        with sent_by(monkeypatch) as sent:
            ledger.commit(make.patch(fact))
    assert not [one for one in sent.statements if "s.source_id = ANY" in one]


@pytest.mark.parametrize("where", [Compare("kind", "eq", "conversation"), Compare("metadata.owner", "eq", "Ada")])
def test_a_search_for_the_newest_object_reads_more_candidates_at_a_time(filled, monkeypatch, where):
    ledger, *_ = filled
    with sent_by(monkeypatch) as sent:
        assert list(ledger.select(Selection(types=("source",), where=where, newest=1))) == []
    assert len(sent.trips) <= 30
