"""Python calls with values of a wrong type raise the package's own error, which names the argument."""

import pytest

import treering
from treering.client import BlockingMemoryClient, MemoryConfig
from treering.testing import HashingEmbedder


@pytest.fixture(scope="module")
def space():
    with treering.open(":memory:", background=False, embedder=HashingEmbedder()) as opened:
        yield opened


@pytest.fixture(scope="module")
def client():
    with BlockingMemoryClient(MemoryConfig.read({"backend": "in_memory"}), background=False) as opened:
        yield opened


def refused(call):
    with pytest.raises(treering.InvalidInput) as error:
        call()
    return error.value.message


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"address": 5}, "The address: int is not text."),
        ({"address": ["a"]}, "The address: list is not text."),
        ({"actor": 5}, "actor: Input should be a valid string"),
        ({"channel": "robot"}, "channel: Input should be 'user', 'agent'"),
        ({"embedder": "bge"}, "embedder: str is not an Embedder."),
    ],
)
def test_opening_a_space_names_the_wrong_argument(options, message):
    assert refused(lambda: treering.open(**{"address": ":memory:", "background": False, **options})).startswith(message)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda space: space.query("search", input="bees", options=[5]), "call.options"),
        (lambda space: space.query("search", scope=5, input="bees"), "call.scope"),
        (lambda space: space.perform("review list", input="nope"), "input is a plain text"),
        (lambda space: space.perform("review list", scope=None), "None is not a valid scope."),
        (lambda space: space.perform(5), "operation: int is not an operation or its name."),
        (lambda space: space.call("query", {"mode": "search"}), "envelope: dict is not an Envelope."),
        (lambda space: space.erase("src:01kefz3m8qd5v2n7x4t9r6w0ya"), "ids: str is not a list of ids."),
        (lambda space: space.merge(5), "The address: int is not text."),
        (lambda space: space.decide("Use uv", scope="web"), "scope: 'web' is not a valid scope."),
        (lambda space: space.decide("Use uv", instead_of="pip"), "instead_of: str is not a list of texts."),
        (lambda space: space.fact("port = 1", of=5), "The subject is of type int."),
        (lambda space: space.person("Ada", max_tokens="many"), "options.max_tokens"),
        (lambda space: space.discussions(5), "5 is not a valid scope."),
        (lambda space: space.discussions().open(5), "5 is not a valid discussion id."),
        (lambda space: space.search("bees", limit="5"), "limit: str is not a number."),
        (lambda space: space.search("bees", limit=True), "limit: bool is not a number."),
        (lambda space: space.search("bees", since="tomorow"), "'tomorow' is not a valid time."),
        (lambda space: space.log(limit=True), "limit: bool is not a number."),
    ],
)
def test_space_names_the_wrong_argument(space, call, message):
    assert refused(lambda: call(space)).startswith(message)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda talk: talk.append("hello"), "messages: str is not a list of messages."),
        (lambda talk: talk.append(["hello"]), "messages[0]: str is not an item of a list of messages."),
        (lambda talk: talk.record([{"content": "hello"}]), "messages[0]: dict is not an item of a list of messages."),
        (lambda talk: talk.record([], start="0"), "start: str is not a position."),
        (lambda talk: talk.delete("0"), "positions: str is not a list of positions."),
        (lambda talk: talk.last_messages("2"), "count: str is not a number."),
        (lambda talk: talk.last_messages(-1), "count is -1, but it cannot be negative."),
        (lambda talk: talk.search(5), "query: int is not text."),
        (lambda talk: talk.search("bees", {"limit": 3}), "options: dict is not a DiscussionSearch."),
        (lambda talk: talk.edit_state(None), "text: NoneType is not text."),
        (lambda talk: talk.import_from("folder"), "files: str is not a dictionary of texts by file name."),
        (lambda talk: talk.state(as_of="yesterday"), "'yesterday' is not"),
    ],
)
def test_discussion_names_the_wrong_argument(space, call, message):
    assert refused(lambda: call(space.discussions().open("a"))).startswith(message)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"since": "yesterday"}, "since: str is not a datetime."),
        ({"limit": "3"}, "limit: str is not a number."),
        ({"limit": True}, "limit: bool is not a number."),
        ({"mode": "words"}, "Unknown mode 'words'."),
        ({"what": "messages"}, "Unknown what 'messages'."),
    ],
)
def test_search_in_discussions_names_the_wrong_option(options, message):
    assert refused(lambda: treering.DiscussionSearch(**options)) == message


def test_message_names_its_wrong_field():
    assert refused(lambda: treering.Message(content="Hi", at="yesterday")).startswith("at: ")
    assert refused(lambda: treering.Message(content="Hi", text="Hi")).startswith("text: ")


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda client: client.store("bees", "topic"), "metadata: str is not a dictionary."),
        (lambda client: client.store("bees", key=5), "key: int is not text."),
        (lambda client: client.store_once("bees"), "memories: str is not a list of KeyedMemory."),
        (lambda client: client.retrieve("bees", filters="topic"), "filters: str is not a dictionary."),
        (lambda client: client.retrieve("bees", scope=["session"]), "Unknown scope ['session']."),
        (lambda client: client.retrieve("bees", profile=5), "profile: int is not a profile or its name."),
        (lambda client: client.get_related_memories("x", "FOLLOWS"), "types: str is not a list of relations."),
        (lambda client: client.merge_nested_context("nope"), "context: str is not a NestedContext."),
        (lambda client: client.discard_nested_context("nope"), "context: str is not a NestedContext."),
        (lambda _client: BlockingMemoryClient(5), "config: int is not a MemoryConfig or nested dictionaries."),
    ],
)
def test_memory_client_names_the_wrong_argument(client, call, message):
    assert refused(lambda: call(client)) == message
