import os
import time

import pytest

import treering
from space_parts import decide, note, open_space, read, records
from treering.core.errors import Corrupt, Denied, InvalidInput, MissingExtra, NotFound, UnknownBackend
from treering.core.policy import Policy
from treering.registry import Place
from treering.sources.reading.access import AnyFile
from treering.spaces import wiring
from treering.spaces.wiring import BACKENDS, Backend, Opening, author, open_engine
from treering.stores.sqlite.opening import open_stores
from treering.system.address import file_address, parse_address
from treering.system.settings import Settings
from treering.testing.fakes import HashingEmbedder
from treering.verbs.scoped_ledger import ScopedLedger


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


def test_an_unknown_backend_reports_the_known_ones_and_no_password(tmp_path):
    with pytest.raises(UnknownBackend) as caught:
        open_engine(opening("postgres://ada:hunter2@db/x", tmp_path))
    assert caught.value.details == {"given": "postgres", "known": ["postgresql", "sqlite"]}
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
        import treering.stores.nowhere

        return treering.stores.nowhere.open_stores

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


def test_space_is_one_file_in_a_new_folder(tmp_path):
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


def _written(path, text):
    path.write_text(text)
    return path


class TestPolicy:
    def test_the_file_beside_the_space_is_its_policy(self, tmp_path):
        (tmp_path / "space.policy.toml").write_text('direct_channels = ["user"]\n')
        with open_space(f"sqlite:{tmp_path / 'space.db'}") as space:
            assert space.crystallize("work_item", input={"title": "x"}).status == "proposed"

    def test_what_the_file_says_goes_with_the_space_to_processes_without_it(self, tmp_path):
        file = tmp_path / "space.policy.toml"
        file.write_text('direct_channels = ["user"]\n')
        with open_space(f"sqlite:{tmp_path / 'space.db'}", channel="user", actor="ada"):
            file.unlink()
        with open_space(f"sqlite:{tmp_path / 'space.db'}") as space:
            assert space.crystallize("work_item", input={"title": "x"}).status == "proposed"
            (event,) = space.engine.ledger.events_of("policy")
        assert (event.actor, event.channel, event.reason) == (
            *("ada", "user"),
            "Read from the policy file space.policy.toml.",
        )

    def test_a_process_that_runs_is_held_to_a_file_that_another_opened_with(self, tmp_path):
        address = f"sqlite:{tmp_path / 'space.db'}"
        with open_space(address) as early:
            assert early.crystallize("work_item", input={"title": "x"}).status == "ok"
            (tmp_path / "space.policy.toml").write_text('direct_channels = ["user"]\n')
            open_space(address, channel="user").close()
            assert early.crystallize("work_item", input={"title": "y"}).status == "proposed"

    def test_opening_again_with_the_same_file_writes_nothing(self, tmp_path):
        (tmp_path / "space.policy.toml").write_text("self_approval = true\n")
        for _ in range(2):
            with open_space(f"sqlite:{tmp_path / 'space.db'}", channel="user") as space:
                assert space.engine.ledger.sequence() == 1

    def test_a_file_with_the_defaults_changes_nothing_where_none_was_set_and_back_to_them_where_one_was(self, tmp_path):
        address, file = f"sqlite:{tmp_path / 'space.db'}", tmp_path / "space.policy.toml"
        file.write_text("")
        with open_space(address, channel="user") as space:
            assert space.engine.ledger.sequence() == 0
        file.write_text('direct_channels = ["user"]\n')
        open_space(address, channel="user").close()
        file.write_text("")
        with open_space(address, channel="user") as space:
            assert space.engine.ledger.policy == Policy()
            assert space.engine.ledger.sequence() == 2

    def test_an_agent_tightens_with_a_file_and_cannot_loosen(self, tmp_path, caplog):
        address, file = f"sqlite:{tmp_path / 'space.db'}", tmp_path / "space.policy.toml"
        open_space(address, channel="user", policy=_written(tmp_path / "first.toml", "self_approval = true\n")).close()
        file.write_text('direct_channels = ["user"]\n')
        with open_space(address) as space:
            assert space.engine.ledger.policy.direct_channels == {"user"}
        file.write_text('erasing_channels = ["agent"]\n')
        with open_space(address) as space:
            assert space.engine.ledger.policy.direct_channels == {"user"}
            assert space.engine.ledger.sequence() == 2
        assert "space.policy.toml is not in force" in caplog.text
        assert "erasing_channels" in caplog.text
        with open_space(address, channel="user") as space:
            assert space.engine.ledger.policy.erasing_channels == {"agent"}

    def test_no_verb_can_reach_the_policy(self, tmp_path):
        with open_space(policy=_written(tmp_path / "p.toml", 'direct_channels = ["user"]\n')) as space:
            seen = ScopedLedger(space.engine.ledger, scope="/", descend=True)
            with pytest.raises(Denied) as caught:
                seen.change_policy(Policy(), by=space.with_actor("ada", channel="user").engine.author)
            assert caught.value.hint
            assert seen.policy == space.engine.ledger.policy

    def test_a_named_file_goes_before_the_one_beside_the_space(self, tmp_path, monkeypatch):
        (tmp_path / "space.policy.toml").write_text("self_approval = true\n")
        monkeypatch.setenv("TREERING_POLICY", str(_written(tmp_path / "env.toml", "newer_supersedes = false\n")))
        with open_space(f"sqlite:{tmp_path / 'space.db'}") as space:
            assert space.engine.ledger.policy == Policy(newer_supersedes=False)
        named = _written(tmp_path / "named.toml", 'reviewed_operations = ["erase"]\n')
        with open_space(f"sqlite:{tmp_path / 'space.db'}", channel="user", policy=named) as space:
            assert space.engine.ledger.policy == Policy(reviewed_operations=frozenset({"erase"}))

    def test_a_policy_goes_with_backups_and_exports_and_a_file_before_an_imported_one(self, tmp_path):
        with open_space(policy=_written(tmp_path / "p.toml", 'direct_channels = ["user"]\n')) as space:
            space.crystallize("work_item", input={"title": "x"})
            space.export(tmp_path / "export")
            space.backup(tmp_path / "copy.db")
            policy = space.engine.ledger.policy
        with open_space(f"sqlite:{tmp_path / 'copy.db'}") as copy, open_space() as imported:
            imported.import_from(tmp_path / "export")
            assert copy.engine.ledger.policy == imported.engine.ledger.policy == policy
        with open_space(policy=_written(tmp_path / "own.toml", "self_approval = true\n")) as own:
            own.import_from(tmp_path / "export")
            assert own.engine.ledger.policy == Policy(self_approval=True)
            assert own.lint("audit").verified
            assert own.lint("audit", scope="/below").events == ()

    def test_the_log_mentions_the_policy_to_who_asks_at_the_root(self, tmp_path):
        with open_space(policy=_written(tmp_path / "p.toml", 'direct_channels = ["user"]\n')) as space:
            (line,) = space.lint("audit").events
            assert "policy_changed policy: Read from the policy file p.toml." in line
            assert space.query("recent").changes == ()

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
            ("self_approval = maybe", "Correct the file"),
            ("\xff", "Correct the file"),
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


def test_open_space_prepares_tables_after_an_erasure(tmp_path, monkeypatch):
    monkeypatch.setattr("treering.stores.rows.followed_table.MIN_SAVED_PASSAGES", 1)
    monkeypatch.setenv("TREERING_DATA_DIR", str(tmp_path))
    with treering.open(f"sqlite:{tmp_path / 'space.db'}", channel="user", embedder=HashingEmbedder()) as space:
        secret = space.ingest("source", input={"text": "The number is 8731."}).ids[-1]
        space.ingest("source", input={"text": "We retry three times."})
        space.query("search", input={"text": "retry"})
        space.erase([secret], "a secret")
        until = time.monotonic() + 60
        while space.engine.vectoriser.has_tables_to_prepare() and time.monotonic() < until:
            time.sleep(0.02)
        assert [*tmp_path.glob("ready/*/graph.table")]
        assert not any(b"8731" in file.read_bytes() for file in tmp_path.glob("ready/*/*.table"))
        assert len(space.query("search", input={"text": "retry"}).hits) == 1


def test_adapter_is_imported_at_its_first_use(monkeypatch):
    monkeypatch.setattr(wiring, "places_of_extensions", lambda _: [("missing", Place("no_such_module:Adapter"))])
    adapters = wiring.LazyAdapters(AnyFile())
    assert adapters["path"] is adapters["path"]
    assert [*adapters] == ["path", "missing"]
    assert "missing" in adapters
    assert "unknown" not in adapters
    with pytest.raises(ModuleNotFoundError):
        adapters["missing"]
    with pytest.raises(KeyError):
        adapters["unknown"]
