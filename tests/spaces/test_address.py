from pathlib import Path
from urllib.parse import quote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from treering.core.errors import InvalidInput
from treering.system.address import MEMORY, Address, file_address, parse_address

DATA = Path("/data")
SECRET = "hunter2-Zebra"

names = st.from_regex(r"[A-Za-z0-9][A-Za-z0-9_-]{0,63}", fullmatch=True)
schemes = st.sampled_from(["postgres", "mongodb", "mongodb+srv", "redis", "rediss", "neo4j", "neo4j+s", "bolt"])
words = st.text(min_size=1, max_size=20)
hosts = st.builds(
    "{}{}".format,
    st.sampled_from(["localhost", "db.example.org", "10.0.0.7", "[::1]"]),
    st.sampled_from(["", ":5432", ":1"]),
)
paths = st.sampled_from(["", "/", "/db", "/a/b.c", "/%20", "/db:1"])
options = st.lists(st.tuples(words, st.text(max_size=20)), max_size=3).map(tuple)
servers = st.builds(
    Address,
    schemes,
    st.builds("{}{}".format, st.lists(hosts, min_size=1, max_size=3).map(",".join), paths),
    st.text(max_size=20),
    st.text(max_size=20),
    options,
)
files = st.builds(file_address, st.text(min_size=1, max_size=40))


def parse(text):
    return parse_address(text, named=DATA)


@given(servers | files)
def test_an_address_that_was_written_is_read_as_the_same(address):
    assert parse(address.url) == address


@given(servers | files)
def test_what_is_printed_is_the_same_address_without_its_secrets(address):
    printed = parse(str(address))
    assert (printed.scheme, printed.place, printed.user) == (address.scheme, address.place, address.user)
    assert printed.password == ""
    assert str(printed) == str(address)


@given(servers, st.sampled_from(["password", "sslpassword", "pwd", "access_token", "Secret", "apiKey"]))
def test_no_password_is_printed(address, option):
    kept = Address(address.scheme, "host:1/db", "ada", SECRET, ((option, SECRET), ("schema", "x")))
    assert SECRET in kept.url
    assert str(kept) == f"{address.scheme}://ada@host:1/db?schema=x"
    for shown in (str(kept), repr(kept), f"{kept}", f"{kept!r}", repr([kept]), repr({"at": kept})):
        assert SECRET not in shown


@given(words, st.sampled_from(["{}://ada:{}@db/x", "{}://ada:{}@db:port", "{}:ada:{}", "{}://{}#{}", "{}://a:{}/b@c"]))
def test_no_error_repeats_what_follows_the_scheme(password, form):
    text = form.format("postgres", SECRET + quote(password), SECRET)
    try:
        shown = str(parse(text))
    except InvalidInput as error:
        shown = f"{error} {error.hint} {error.details} {error.__cause__} {error.__context__}"
    assert SECRET not in shown


def test_a_whole_address_of_a_server_is_taken_apart():
    assert parse("postgres://ada:p%40ss@db:5432/memory?schema=x&mode=a%20b") == Address(
        "postgres", "db:5432/memory", "ada", "p@ss", (("schema", "x"), ("mode", "a b"))
    )


@pytest.mark.parametrize(
    "address",
    ["mongodb://a:1,b:2/x", "redis://localhost:6379/0", "neo4j+s://abc.databases.neo4j.io", "bolt://[::1]:7687"],
)
def test_addresses_of_servers_are_printed_as_they_are_written(address):
    assert str(parse(address)) == address
    assert not parse(address).is_file
    assert parse(address).file is None


def test_an_at_sign_in_a_password_may_stay_as_it_is_where_nothing_else_can_be_meant():
    assert parse("postgres://ada:p@ss@db/x").password == "p@ss"


@pytest.mark.parametrize(
    "text",
    [
        f"postgres://ada:{SECRET}/x@db/y",  # a slash in a password would make a path of what follows
        f"postgres://ada:a?{SECRET}@db",
        f"postgres://ada:a#{SECRET}@db",
        f"postgres://ada:{SECRET}/db",  # the host was left out
        f"postgres://db:{SECRET}",
        f"postgres://ada:{SECRET}%ff@db",
        f"postgres://ada:{SECRET}\udcff@db",
        "postgres://",
        "postgres:",
        "postgres:///",
    ],
)
def test_what_is_no_address_of_a_server_is_refused_without_repeating_it(text):
    with pytest.raises(InvalidInput) as caught:
        parse(text)
    assert "postgres" in caught.value.message
    assert caught.value.hint
    assert SECRET not in f"{caught.value.as_dict()}{caught.value.__context__}"


@given(names)
def test_a_bare_name_is_a_file_in_the_folder_of_named_spaces(name):
    assert parse(name) == file_address(DATA / f"{name}.db")


@pytest.mark.parametrize(
    "path", ["space.db", "./team", "a/b", "/x/y.db", "C:\\spaces\\x.db", "c:x.db", "\\\\host\\s\\x"]
)
def test_a_path_is_a_file_with_and_without_its_scheme(path):
    assert parse(path) == parse(f"sqlite:{path}") == file_address(path)
    assert parse(path).file == Path(path)


@pytest.mark.parametrize("text", [":memory:", "memory:", "sqlite::memory:", "SQLITE::memory:"])
def test_a_space_in_memory_is_no_file(text):
    address = parse(text)
    assert address.in_memory
    assert address.file is None
    assert str(address) == MEMORY


@pytest.mark.parametrize("text", ["", ":", ":x", "sqlite:", "my space:x", "a/b:c"])
def test_what_names_no_place_is_refused(text):
    with pytest.raises(InvalidInput) as caught:
        parse(text)
    assert "sqlite:PATH" in caught.value.hint
