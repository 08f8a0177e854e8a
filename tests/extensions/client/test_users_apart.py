"""Every public method of the client, its records and its logs, called by one user on the data of another."""

from types import SimpleNamespace
from uuid import uuid4

import client_parts
import pytest

import mongo_server
import redis_server
from treering import TreeringError
from treering.client import BlockingMemoryClient, MemorySystemClient
from treering.extensions.client.items.documents import MemoryDocument
from treering.extensions.client.items.recording import KeyedMemory
from treering.extensions.client.record_names import RecordCollection, RecordDraft
from treering.extensions.client.records import RecordEntry, RecordLog, Records

SECRET = "Oskar's salary"
NOTES = RecordCollection(("notes",))
HIDDEN = RecordCollection(("state",), hidden=True)
LOG = RecordCollection(("log",), session_id="s1")
ASYNC_ONLY = {"aclose", "sync", "key", "agent_type", "user_id", "config"}


@pytest.fixture(scope="session")
def redis_url():
    try:
        server = redis_server.new_server(vector_sets=False)
    except redis_server.CannotStart as error:
        pytest.skip(f"no such Redis server can be started here: {error}")
    yield server.url
    redis_server.remove(server)


@pytest.fixture(scope="session")
def mongo_url():
    with mongo_server.running() as server:
        yield server.url


@pytest.fixture(
    params=[
        "sqlite",
        "in_memory",
        "faiss",
        "postgres",
        "redis",
        pytest.param("neo4j", marks=pytest.mark.nightly),
        pytest.param("mongodb", marks=pytest.mark.nightly),
    ]
)
def backend(request, tmp_path):
    """The configuration of a backend, if it runs here."""
    given = {"backend": request.param, "sqlite": {"path": str(tmp_path / "memory.db")}}
    match request.param:
        case "postgres":
            server = request.getfixturevalue("postgres")
            given["postgres"] = {"url": server.url(), "space": uuid4().hex}
        case "redis":
            given["redis"] = {"url": request.getfixturevalue("redis_url")}
        case "neo4j":
            given["neo4j"] = {"url": request.getfixturevalue("bolt").url()}
        case "mongodb":
            given["mongodb"] = {"url": request.getfixturevalue("mongo_url")}
    return client_parts.config(**given)


@pytest.fixture
def users(backend):
    with (
        client_parts.blocking(backend, user_id="mira", channel="user") as mira,
        client_parts.blocking(backend, user_id="oskar", channel="user") as oskar,
    ):
        if backend.backend == "in_memory":
            mira._space = oskar._space
        yield SimpleNamespace(mira=mira, **data_of(oskar))


def data_of(oskar):
    """Store data of each kind for Oskar, under names that Mira uses, too."""
    context = oskar.create_nested_context("s1", "loop")
    inner = oskar.create_nested_context(context.session_id, "inner")
    ids = [
        oskar.store(f"{SECRET} is 91,000 euros", key="salary"),
        oskar.store(f"{SECRET} is paid on Monday", {"session_id": "s1"}),
        oskar.store(f"{SECRET} is discussed", {"session_id": context.session_id}),
        oskar.store(f"{SECRET} was withdrawn"),
        oskar.store(f"{SECRET} in an inner loop", {"session_id": inner.session_id}),
        *oskar.store_once([KeyedMemory("trace:1", f"{SECRET} trace")]),
    ]
    oskar.delete(ids[3])
    oskar.merge_nested_context(inner)
    for collection in (NOTES, HIDDEN):
        drafts = [RecordDraft(collection.name(key), {"of": SECRET}, f"{SECRET} note {key}") for key in ("a", "b/c")]
        oskar.records.keep(drafts, reason="Test")
        oskar.records.remove([collection.name("b/c")], reason="Test")
    log = RecordLog(oskar.records, LOG)
    log.append([RecordEntry({"number": number}, f"{SECRET} entry {number}") for number in range(3)], reason="Test")
    log.pop(reason="Test")
    aside = {
        "id": "src:aside",
        "content": SECRET,
        "metadata": {"user_id": "oskar"},
        "stored_at": "2026-01-01T00:00:00Z",
    }
    oskar._memory.writer._journal.set_aside(aside, "Test")
    ids += [record.id for record in oskar.records.all_of(NOTES)]
    oskar.catch_up()
    merged = [
        one.id for one in oskar.get_related_memories(ids[4]) if one.metadata.get("memory_type") == "nested_context"
    ]
    assert merged
    return {"oskar": oskar, "merged": merged, "ids": ids, "context": context, "inner": inner}


def state_of(users):
    """Return all data of Oskar as he sees it."""
    oskar, logged = users.oskar, RecordLog(users.oskar.records, LOG)
    reads = [
        oskar.retrieve("", top_k=200, scope="user"),
        oskar.retrieve("", top_k=200, session_id="s1"),
        oskar.retrieve("", top_k=200, session_id=users.context.session_id),
        *(oskar.get_related_memories(one, depth=2) for one in users.ids),
    ]
    stored = oskar._memory.engine.ledger.select(client_parts.ALL_SOURCES)
    return {
        "memories": [sorted(seen(one) for one in read if SECRET in one.content) for read in reads],
        "records": [oskar.records.all_of(one) for one in (NOTES, HIDDEN)],
        "used": [oskar.records.used([one.name("a"), one.name("b/c")]) for one in (NOTES, HIDDEN)],
        "log": logged.entries(),
        "stored": [
            (one.id, one.revision, one.status, one.scope) for one in stored if one.metadata["user_id"] == "oskar"
        ],
        "aside": oskar.set_aside(),
    }


def is_of_oskar(source):
    return source.metadata["user_id"] == "oskar"


def seen(memory):
    return memory.id, memory.content, str(memory.metadata), memory.replaced_by


def each_id(call):
    """Call something with the id of each memory of Oskar."""
    return lambda users: [attempted(lambda one=one: call(users, one)) for one in users.ids]


def attempted(call):
    try:
        return call()
    except TreeringError as error:
        return str(error)


def drafts(collection):
    return [RecordDraft(collection.name(key), {"of": "Mira"}, "Mira's note") for key in ("a", "b/c")]


def names(collection):
    return [collection.name(key) for key in ("a", "b/c")]


def of_records(call):
    return lambda users: [attempted(lambda one=one: call(users.mira.records, one)) for one in (NOTES, HIDDEN, LOG)]


def of_log(call):
    return lambda users: call(RecordLog(users.mira.records, LOG))


def retrieved(users):
    scopes = ("session", "lineage", "user")
    sessions = (None, "s1", users.context.session_id, users.inner.session_id)
    queries = ("", "Oskar's salary in euros")
    return [
        users.mira.retrieve(query, 200, None, one, scope) for query in queries for one in sessions for scope in scopes
    ]


def stored(users):
    one = users.ids[0]
    mira = users.mira
    mira.store("Mira earns 1 euro", key="salary")
    mira.store("Mira lists it", {"replaces": one, "follows": one, "user_id": ["mira", "oskar"], "memory_type": "plan"})
    attempted(lambda: mira.store("Mira earns 2 euros", {"user_id": "oskar"}, key="salary"))
    attempted(lambda: mira.store("Mira earns 3 euros", replaces=one))
    mira.store(MemoryDocument(content="Mira's document", id=one))


def context_of(users):
    return users.mira.create_nested_context("s1", "loop")


ATTACKS = {
    BlockingMemoryClient: {
        "store": stored,
        "store_once": lambda users: users.mira.store_once([KeyedMemory("trace:1", "Mira's trace")]),
        "retrieve": retrieved,
        "brief": lambda users: [users.mira.brief(one) for one in (None, "s1", users.context.session_id)],
        "get_related_memories": each_id(lambda users, one: users.mira.get_related_memories(one, depth=3)),
        "create_nested_context": context_of,
        "merge_nested_context": lambda users: users.mira.merge_nested_context(context_of(users)),
        "discard_nested_context": lambda users: users.mira.discard_nested_context(context_of(users)),
        "delete": each_id(lambda users, one: [users.mira.delete(one), users.mira.delete(one, erase=True)]),
        "erase_user": lambda users: users.mira.erase_user(),
        "set_aside": lambda users: users.mira.set_aside(),
        "retry_set_aside": lambda users: users.mira.retry_set_aside(),
        "catch_up": lambda users: users.mira.catch_up(),
        "records": lambda users: users.mira.records.all_of(NOTES),
        "flush": lambda users: users.mira.flush(),
        "closed": lambda users: users.mira.closed,
        "close": lambda users: client_parts.blocking(users.mira.config, user_id="mira").close(),
    },
    Records: {
        "get": of_records(lambda records, one: records.get([*names(one), one.name("log"), one.name("log/000000000")])),
        "all_of": of_records(lambda records, one: records.all_of(one)),
        "last_of": of_records(lambda records, one: records.last_of(one, "")),
        "used": of_records(lambda records, one: sorted(records.used([one.name("a"), one.name("log")]))),
        "count": of_records(lambda records, one: [] if records.count(one) == 0 else SECRET),
        "search": of_records(lambda records, one: records.search(one, "Oskar's salary note entry", limit=9)),
        "write": of_records(
            lambda records, one: records.write(
                drafts(one), remove=[one.name("log/000000000")], rename={one.name("log"): "moved"}, reason="Test"
            )
        ),
        "keep": of_records(lambda records, one: records.keep(drafts(one), reason="Test")),
        "remove": of_records(lambda records, one: [records.remove(names(one), reason="Test", erase=True), None][1]),
        "erase": each_id(lambda users, one: users.mira.records.erase([one], reason="Test")),
        "erase_collection": of_records(lambda records, one: records.erase_collection(one, reason="Test")),
    },
    RecordLog: {
        "entries": of_log(lambda log: log.entries()),
        "pop": of_log(lambda log: log.pop(reason="Test", erase=True)),
        "append": of_log(lambda log: log.append([RecordEntry({}, "Mira's entry")], reason="Test")),
        "clear": of_log(lambda log: log.clear(reason="Test", erase=True)),
    },
}


def public_names(cls):
    return {name for name in dir(cls) if not name.startswith("_")}


@pytest.mark.parametrize("cls", ATTACKS, ids=lambda cls: cls.__name__)
def test_every_public_method_is_tried(cls):
    assert public_names(cls) == ATTACKS[cls].keys()


def test_asynchronous_client_has_no_other_methods():
    assert public_names(MemorySystemClient) - ASYNC_ONLY <= public_names(BlockingMemoryClient)


def test_user_neither_sees_nor_changes_data_of_another(users, backend):
    before = state_of(users)
    # Again on one backend, when the other user has data under the same names.
    for round_number in range(2 if backend.backend == "sqlite" else 1):
        for cls, attacks in ATTACKS.items():
            for name, attack in attacks.items():
                result = attack(users)
                shown = [repr(result), repr(getattr(result, "trace", ""))]
                assert not any("Oskar" in one for one in shown), f"{cls.__name__}.{name} shows it ({round_number})"
                assert state_of(users) == before, f"{cls.__name__}.{name} changes it ({round_number})"


@pytest.fixture
def earlier(tmp_path):
    """Clients of two users of a space whose records were stored at the same origins, as earlier versions did."""
    config = client_parts.config(backend="sqlite", sqlite={"path": str(tmp_path / "memory.db")})
    with (
        client_parts.blocking(config) as shared,
        client_parts.blocking(config, user_id="mira", channel="user") as mira,
        client_parts.blocking(config, user_id="oskar", channel="user") as oskar,
    ):
        yield SimpleNamespace(shared=shared, mira=mira, oskar=oskar)


def keep_earlier(earlier, user, key, text):
    draft = RecordDraft(NOTES.name(key), {"of": user}, text, {"user_id": user})
    earlier.shared.records.keep([draft], reason="Test")


def test_records_of_earlier_versions_remain_with_their_user(earlier):
    keep_earlier(earlier, "oskar", "a", "Oskar's note")
    keep_earlier(earlier, "mira", "b", "Mira's note")
    own = earlier.oskar.records
    before = own.get([NOTES.name("a")])[NOTES.name("a")]
    assert [one.text for one in own.all_of(NOTES)] == ["Oskar's note"]
    assert [one.text for one in own.search(NOTES, "note", limit=5)] == ["Oskar's note"]
    own.keep([RecordDraft(NOTES.name("a"), text="Oskar's new note")], reason="Test")
    after = own.get([NOTES.name("a")])[NOTES.name("a")]
    assert (after.id, after.text) == (before.id, "Oskar's new note")
    own.erase_collection(NOTES, reason="Test")
    assert own.count(NOTES) == 0
    assert [one.text for one in earlier.mira.records.all_of(NOTES)] == ["Mira's note"]


def test_log_that_users_shared_in_earlier_versions_is_continued_by_each(earlier):
    log = RecordLog(earlier.shared.records, LOG)
    for user in ("oskar", "mira", "oskar", "mira"):
        log.append([RecordEntry({}, f"{user} speaks", {"user_id": user})], reason="Test")
    for client in (earlier.mira, earlier.oskar):
        own = RecordLog(client.records, LOG)
        own.append([RecordEntry({}, f"{client.user_id} again")], reason="Test")
        own.append([RecordEntry({}, "popped")], reason="Test")
        assert own.pop(reason="Test").text == "popped"
    for client in (earlier.mira, earlier.oskar):
        texts = [one.text for one in RecordLog(client.records, LOG).entries()]
        assert {one.partition(" ")[0] for one in texts if one} >= {client.user_id}
        assert texts[-1] == f"{client.user_id} again"


def test_records_without_a_user_are_shared(earlier):
    earlier.shared.records.keep([RecordDraft(NOTES.name("a"), text="For all")], reason="Test")
    for client in (earlier.mira, earlier.oskar):
        assert [one.text for one in client.records.all_of(NOTES)] == ["For all"]


@pytest.mark.parametrize("erased", [False, True])
def test_memory_that_an_earlier_version_stored_once_is_not_stored_again(earlier, erased):
    memory = KeyedMemory("trace:1", "A trace", {"user_id": "oskar"})
    (old,) = earlier.shared.store_once([KeyedMemory("trace:1", "A trace")])
    earlier.shared.flush()
    if erased:
        earlier.oskar.delete(old, erase=True)
    earlier.oskar.store_once([memory])
    stored = client_parts.texts(earlier.oskar.retrieve(""))
    assert stored == ([] if erased else ["A trace"])


def test_users_store_their_own_memories_under_the_same_key(earlier):
    for client in (earlier.mira, earlier.oskar):
        first, second = KeyedMemory("1", f"{client.user_id} one"), KeyedMemory("2", f"{client.user_id} two")
        ids = client.store_once([first, KeyedMemory("2", second.content, {"follows": first.id})])
        assert client.store_once([first]) == []
        assert [one.id for one in client.get_related_memories(ids[0])] == [ids[1]]
    assert set(client_parts.texts(earlier.mira.retrieve(""))) == {"mira one", "mira two"}
