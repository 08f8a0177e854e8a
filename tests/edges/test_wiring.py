import os

import pytest

import treering
from space_parts import decide, note, open_space, read, records
from treering.core.errors import Corrupt, InvalidInput, MissingExtra, NotFound, UnknownBackend
from treering.edges.address import file_address, parse_address
from treering.edges.settings import Settings
from treering.edges.stores.sqlite.opening import open_stores
from treering.edges.wiring import BACKENDS, Backend, Opening, author, open_engine
from treering.testing.hashing_embedder import HashingEmbedder


def test_an_unknown_backend_is_refused_with_the_nearest_name(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UnknownBackend) as caught:
        treering.open("sqlit:space.db")
    assert "sqlite" in caught.value.hint
    assert list(tmp_path.iterdir()) == []


def opening(address, folder):
    """Open what an address names, embedding by hashing words."""
    settings = Settings.read({}, folder=folder)
    address = parse_address(address, named=folder)
    return Opening(address, settings, author("ada", "user", settings), background=False, embedder=HashingEmbedder())


def test_another_database_is_one_entry_in_the_table(tmp_path):
    def open_served(address, needs):
        """Open the file that a server of this scheme would keep."""
        return open_stores(file_address(tmp_path / address.place), needs)

    backends = {**BACKENDS, "served": Backend(lambda: open_served)}
    opened = open_engine(opening("served://ada:hunter2@host.db", tmp_path), backends=backends)
    assert opened.engine.ledger.sequence() == 0
    opened.close()
    assert (tmp_path / "host.db").is_file()


def test_an_unknown_backend_tells_the_known_ones_and_no_password(tmp_path):
    with pytest.raises(UnknownBackend) as caught:
        open_engine(opening("postgres://ada:hunter2@db/x", tmp_path))
    assert caught.value.details == {"given": "postgres", "known": ["sqlite"]}
    assert "hunter2" not in f"{caught.value} {caught.value.hint}"


def test_a_backend_whose_extra_is_not_installed_names_the_extra(tmp_path):
    def load():
        import a_driver_that_nobody_has_installed

        return a_driver_that_nobody_has_installed.open_stores

    backends = {"served": Backend(load, extra="served"), "plain": Backend(load)}
    with pytest.raises(MissingExtra) as caught:
        open_engine(opening("served://ada:hunter2@db/x", tmp_path), backends=backends)
    assert caught.value.hint == "Install it: pip install 'treering[served]'."
    assert "hunter2" not in str(caught.value)
    with pytest.raises(ModuleNotFoundError):
        open_engine(opening("plain://db/x", tmp_path), backends=backends)


def test_a_module_of_our_own_that_is_missing_is_no_missing_extra(tmp_path):
    def load():
        import treering.edges.stores.nowhere

        return treering.edges.stores.nowhere.open_stores

    with pytest.raises(ModuleNotFoundError):
        open_engine(opening("served://db", tmp_path), backends={"served": Backend(load, extra="served")})


def test_the_address_of_an_open_space_is_printed_as_it_may_be_given_again(tmp_path):
    with open_space(str(tmp_path / "space.db")) as space:
        known = decide(space, "SQLite")
        printed = str(space.address)
    assert printed == f"sqlite:{tmp_path / 'space.db'}"
    with open_space(printed, create=False) as again:
        assert read(again, known).title == "SQLite"


@pytest.mark.parametrize("address", [":memory:", "memory:", "sqlite::memory:"])
def test_a_space_in_memory_leaves_no_file(tmp_path, monkeypatch, address):
    monkeypatch.chdir(tmp_path)
    with open_space(address) as space:
        decide(space, "SQLite")
    assert list(tmp_path.iterdir()) == []


def test_two_spaces_in_memory_are_two(open_space):
    one, other = open_space(), open_space()
    decide(one, "SQLite")
    assert records(other) == []


def test_a_space_is_kept_in_one_file_and_its_folder_is_made(tmp_path):
    path = tmp_path / "deep" / "space.db"
    with open_space(f"sqlite:{path}") as space:
        known = decide(space, "SQLite")
    assert [file.name for file in path.parent.iterdir()] == ["space.db"]
    with open_space(str(path)) as space:
        assert read(space, known).title == "SQLite"


def test_a_named_space_lives_under_the_data_folder(tmp_path, monkeypatch):
    monkeypatch.setenv("TREERING_DATA_DIR", str(tmp_path / "data"))
    open_space("team").close()
    assert (tmp_path / "data" / "team.db").is_file()


def test_without_an_address_the_working_folder_gets_a_space(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    open_space(None).close()
    assert (tmp_path / ".treering" / "treering.db").is_file()


@pytest.mark.parametrize("address", ["sqlite:{}/no/space.db", "{}/no.db", "C:\\spaces\\no.db"])
def test_a_space_that_is_not_there_is_only_made_where_that_is_wanted(tmp_path, monkeypatch, address):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(NotFound) as caught:
        open_space(address.format(tmp_path), create=False)
    assert "init" in caught.value.hint
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("address", ["sqlite:", ":"])
def test_an_address_without_a_place_is_refused(address):
    with pytest.raises(InvalidInput) as caught:
        open_space(address)
    assert caught.value.hint


def test_a_file_that_is_no_space_is_refused_and_left_alone(tmp_path):
    path = tmp_path / "letter.txt"
    path.write_text("Dear Otto, " * 100)
    with pytest.raises(Corrupt):
        open_space(str(path))
    assert path.read_text().startswith("Dear Otto")


class TestPolicy:
    def test_the_file_beside_the_space_is_its_policy(self, tmp_path):
        (tmp_path / "space.policy.toml").write_text('direct_channels = ["user"]\n')
        with open_space(f"sqlite:{tmp_path / 'space.db'}") as space:
            assert space.crystallize("work_item", input={"title": "x"}).status == "proposed"

    def test_a_policy_can_be_named_in_the_environment(self, tmp_path, monkeypatch):
        (tmp_path / "p.toml").write_text('direct_channels = ["user"]\n')
        monkeypatch.setenv("TREERING_POLICY", str(tmp_path / "p.toml"))
        with open_space() as space:
            assert space.engine.ledger.policy.direct_channels == {"user"}

    def test_a_policy_that_was_named_has_to_be_there(self, tmp_path, monkeypatch):
        with pytest.raises(NotFound):
            open_space(policy=tmp_path / "p.toml")
        monkeypatch.setenv("TREERING_POLICY", str(tmp_path / "p.toml"))
        with pytest.raises(NotFound):
            open_space()

    @pytest.mark.parametrize(
        ("text", "hint"),
        [
            ("direct_chanels = []", "direct_channels"),
            ('direct_channels = ["robot"]', "details"),
            ("self_approval = maybe", "Correct it"),
            ("\xff", "Correct it"),
        ],
    )
    def test_a_policy_that_cannot_be_read_opens_nothing(self, tmp_path, text, hint):
        (tmp_path / "space.policy.toml").write_text(text, encoding="latin-1")
        with pytest.raises(InvalidInput, match=r"space\.policy\.toml") as caught:
            open_space(f"sqlite:{tmp_path / 'space.db'}")
        assert hint in caught.value.hint
        assert not (tmp_path / "space.db").exists()


def test_who_writes_is_named_by_call_then_environment(monkeypatch):
    monkeypatch.setenv("TREERING_ACTOR", "ada")
    with open_space() as space:
        assert (space.engine.author.actor, space.engine.author.channel) == ("ada", "agent")
    with open_space(actor="bob", channel="user") as space:
        assert (space.engine.author.actor, space.engine.author.channel) == ("bob", "user")


def test_an_anchor_can_be_named_in_the_environment(tmp_path, monkeypatch):
    monkeypatch.setenv("TREERING_ANCHOR", str(tmp_path / "anchor.json"))
    with open_space() as space:
        decide(space, "SQLite")
    assert (tmp_path / "anchor.json").is_file()


def test_vectors_are_made_behind_everyday_work_unless_that_is_switched_off(tmp_path):
    with treering.open(f"sqlite:{tmp_path / 'a.db'}", background=True, embedder=HashingEmbedder()) as space:
        note(space, "We use SQLite.")
        space.embed_pending()
        assert space.engine.index.vectors.lag().pending == 0
    with open_space() as space:
        note(space, "We use SQLite.")
        assert space.engine.index.vectors.lag().pending == 1


@pytest.mark.skipif(os.name == "nt" or os.geteuid() == 0, reason="nothing is forbidden to root")
def test_a_folder_that_cannot_be_written_is_named(tmp_path):
    tmp_path.chmod(0o500)
    with pytest.raises(treering.core.errors.Unavailable):
        open_space(f"sqlite:{tmp_path / 'space.db'}")
