"""A conversation with a coding agent stays with its author; the knowledge confirmed from it arrives with a notice."""

import json
import subprocess
import zlib
from dataclasses import dataclass
from pathlib import Path

import pytest
from synced_copies import git

import postgres_server
import treering
from space_parts import only_id
from treering.core.evidence import EvidenceRef
from treering.core.filters import Compare
from treering.core.objects import Knowledge
from treering.extensions.coding_agents.session_work import keep_now
from treering.extensions.sharing.merge_rules.notices import notice_of, problem_of_notice
from treering.ports.ledger import Selection
from treering.surfaces.cli import run
from treering.system.settings import Settings

RULE = "Never use fmt.Println in library code."
DECISION = "Use Postgres instead of Mysql"
MESSAGES = [
    ("user", f"{RULE} Ask quetzalcoatlus if unsure."),
    ("assistant", "Understood, I called zanzibar in secret_plan.py."),
    ("user", "We decided to use Postgres instead of Mysql."),
]
PRIVATE_WORDS = ("quetzalcoatlus", "zanzibar", "secret_plan", "s-anna", "Understood", "Mysql", "discussion")
SHARED = 'shared_scopes = ["/discussion"]\n'


@dataclass
class Person:
    """A person with a space, the sessions of their coding agent, and a remote."""

    name: str
    folder: Path
    remote: Path
    patch: pytest.MonkeyPatch

    @property
    def file(self):
        return self.folder / "space.db"

    def use(self):
        self.patch.chdir(self.folder)
        self.patch.setenv("TREERING_ACTOR", self.name)
        self.patch.setenv("TREERING_SPACE", f"sqlite:{self.file}")

    def open(self):
        self.use()
        return treering.open(f"sqlite:{self.file}", background=False, channel="user", actor=self.name)

    def store_session(self, messages=MESSAGES):
        self.use()
        lines = [{"session_id": f"s-{self.name}", "role": role, "content": text} for role, text in messages]
        transcript = self.folder / "s.jsonl"
        transcript.write_text("\n".join(map(json.dumps, lines)))
        keep_now(transcript)

    def confirm(self, title):
        with self.open() as space:
            (item,) = [one for one in knowledge(space) if one.title == title]
            space.crystallize("promote", input={"ids": [item.id]})
            return item.id

    def sync(self):
        with self.open() as space:
            return space.sync(str(self.remote))

    def share(self, text=SHARED):
        self.file.with_suffix(".policy.toml").write_text(text)

    def item(self, identity):
        with self.open() as space:
            return space.engine.ledger.get(identity)

    def evidence(self, identity):
        with self.open() as space:
            page = space.query("page", input={"id": identity}, options={"descend": True})
            return page.evidence, page.quotes

    def problems(self):
        with self.open() as space:
            space.engine.ledger.verify()
            return [one.explanation for one in space.lint("all").findings if one.severity == "error"]


def knowledge(space):
    items = space.engine.ledger.select(Selection(descend=True, types=("knowledge",)))
    return [one for one in items if isinstance(one, Knowledge) and one.kind != "summary"]


def conversations(space):
    where = Compare("kind", "eq", "conversation")
    return [*space.engine.ledger.select(Selection(descend=True, types=("source",), where=where))]


@pytest.fixture
def remote(tmp_path):
    place = tmp_path / "remote"
    place.mkdir()
    git("init", "--quiet", "--bare", str(place))
    return place


@pytest.fixture
def people(tmp_path, remote, monkeypatch):
    monkeypatch.setenv("TREERING_BACKGROUND", "0")
    people = [Person(name, tmp_path / name, remote, monkeypatch) for name in ("anna", "ben")]
    for one in people:
        one.folder.mkdir()
    return people


def words_at(remote):
    """Return everything in a bare repository: names of refs and files, and the unpacked contents."""
    listed = git("-C", str(remote), "cat-file", "--batch-all-objects", "--batch-check=%(objectname) %(objecttype)")
    contents = [git("-C", str(remote), "for-each-ref").encode()]
    for name, kind in (one.split() for one in listed.splitlines()):
        shown = subprocess.run(["git", "-C", remote, "cat-file", kind, name], check=True, capture_output=True).stdout
        contents.append(shown)
        if kind == "blob" and not shown.startswith(b"{"):
            contents.append(zlib.decompress(shown))
    return b"\n".join(contents).decode(errors="replace")


def test_confirmed_rule_arrives_as_valid_and_names_its_withheld_conversation(people):
    anna, ben = people
    anna.store_session()
    rule = anna.confirm(RULE)
    report = anna.sync()
    assert (report.conversations, report.withheld_conversations) == (0, 1)
    ben.sync()
    assert ben.item(rule).status == "active"
    ((place,), (words,)) = ben.evidence(rule)
    assert place.startswith("Conversation of anna on ")
    assert place.endswith(", not shared")
    assert words == ""
    assert ben.problems() == anna.problems() == []
    assert anna.evidence(rule)[1] == (MESSAGES[0][1],)


@pytest.fixture
def database():
    """The address of a space in a Postgres database."""
    try:
        server = postgres_server.new_server()
    except postgres_server.CannotStart as error:
        pytest.skip(f"no Postgres server can be started here: {error}")
    yield server.url(space="team")
    postgres_server.remove(server)


def test_database_that_merges_a_copy_has_the_notices_of_withheld_conversations(people, database):
    anna, ben = people
    anna.store_session()
    rule = anna.confirm(RULE)
    anna.sync()
    ben.sync()
    with treering.open(database, background=False, channel="user") as space:
        space.merge(f"sqlite:{ben.file}")
        page = space.query("page", input={"id": rule}, options={"descend": True})
        assert page.evidence[0].endswith(", not shared")
        assert page.quotes == ("",)
        assert [one.id for one in knowledge(space)] == [rule]
        assert space.engine.ledger.get(rule).status == "active"
        assert not space.search("quetzalcoatlus zanzibar")
        assert not [one for one in space.lint("all").findings if one.severity == "error"]
    anna.share()
    anna.sync()
    ben.sync()
    with treering.open(database, background=False, channel="user") as space:
        space.merge(f"sqlite:{ben.file}")
        page = space.query("page", input={"id": rule}, options={"descend": True})
        assert page.quotes == (MESSAGES[0][1],)


def test_remote_and_the_copy_of_a_colleague_contain_no_word_of_a_withheld_conversation(people, tmp_path, remote):
    anna, ben = people
    anna.store_session()
    anna.confirm(RULE)
    anna.sync()
    ben.sync()
    with ben.open() as space:
        space.export(tmp_path / "export")
        assert not space.search("quetzalcoatlus zanzibar")
    exported = "\n".join(f"{one} {one.read_text()}" for one in (tmp_path / "export").rglob("*") if one.is_file())
    for text in (words_at(remote), exported):
        assert RULE in text
        assert not [word for word in PRIVATE_WORDS if word in text]
    with anna.open() as space:
        (source,) = conversations(space)
    for text in (words_at(remote), exported):
        assert source.salt not in text, "the words could be guessed from their hashes"


def test_candidate_of_a_withheld_conversation_arrives_once_it_is_confirmed(people):
    anna, ben = people
    anna.store_session()
    anna.confirm(RULE)
    anna.sync()
    ben.sync()
    with ben.open() as space:
        assert [one.title for one in knowledge(space)] == [RULE]
    decision = anna.confirm(DECISION)
    anna.sync()
    ben.sync()
    assert ben.item(decision).status == "active"
    assert ben.problems() == []
    with ben.open() as space:
        (source,) = conversations(space)
        assert len(source.withheld.hashes) == 2


def derived(person, parents, title="Log through slog"):
    """Record knowledge that is derived from other knowledge alone."""
    fields = {"kind": "decision", "title": title, "payload": {"question": f"{title}?", "outcome": title}}
    with person.open() as space:
        given = {**fields, "status": "active", "derived_from": parents}
        return only_id(space.crystallize("knowledge", input=given), "know:")


def candidate(person, title=RULE):
    with person.open() as space:
        return next(one.id for one in knowledge(space) if one.title == title)


def test_knowledge_derived_from_withheld_knowledge_arrives_as_valid(people, remote):
    anna, ben = people
    anna.store_session()
    parent = candidate(anna)
    child = derived(anna, [parent])
    grandchild = derived(anna, [child], "Log requests through slog")
    anna.sync()
    ben.sync()
    assert [ben.item(one).status for one in (child, grandchild)] == ["active", "active"]
    ((place,), (words,)) = ben.evidence(child)
    assert place.startswith("Conversation of anna on ")
    assert words == ""
    assert ben.problems() == anna.problems() == []
    assert anna.item(child).derived_from == (parent,)
    assert not [word for word in (RULE, *PRIVATE_WORDS) if word in words_at(remote)]


@pytest.mark.parametrize("is_synced", [True, False])
@pytest.mark.parametrize("loss", ["archived", "removed"])
def test_derived_knowledge_that_lost_its_withheld_parent_is_stale_everywhere(people, loss, is_synced):
    anna, ben = people
    anna.store_session()
    parent = candidate(anna)
    child = derived(anna, [parent])
    if is_synced:
        anna.sync()
        ben.sync()
    with anna.open() as space:
        if loss == "archived":
            space.crystallize("knowledge", input={"id": parent, "status": "archived"})
        else:
            space.perform("discussion delete", input={"id": "s-anna", "positions": [0]})
    anna.sync()
    ben.sync()
    assert anna.item(child).status == ben.item(child).status == "stale"


def test_change_of_derived_knowledge_at_a_colleague_returns_to_its_author(people):
    anna, ben = people
    anna.store_session()
    parent = candidate(anna)
    child = derived(anna, [parent])
    anna.sync()
    ben.sync()
    with ben.open() as space:
        space.crystallize("knowledge", input={"id": child, "title": "Log through slog only"})
    ben.sync()
    anna.sync()
    for person in people:
        assert (person.item(child).title, person.item(child).status) == ("Log through slog only", "active")
    assert anna.item(child).derived_from == (parent,)


def test_candidate_of_an_erased_conversation_does_not_leave(people, remote):
    anna, _ = people
    anna.store_session()
    with anna.open() as space:
        space.erase([one.id for one in conversations(space)])
    anna.sync()
    assert not [word for word in (RULE, *PRIVATE_WORDS) if word in words_at(remote)]


def test_task_of_a_withheld_conversation_arrives_without_dangling_references(people):
    anna, ben = people
    anna.store_session()
    with anna.open() as space:
        (source,) = conversations(space)
        fields = {"title": "Remove the calls", "source_refs": [source.id]}
        (task,) = space.crystallize("work_item", input={"kind": "task", **fields}).ids
    anna.sync()
    ben.sync()
    assert ben.item(task).source_refs == (source.id,)
    assert ben.item(source.id).status == "withheld"
    assert ben.problems() == []


def test_shared_conversation_replaces_its_notice(people):
    anna, ben = people
    anna.store_session()
    rule = anna.confirm(RULE)
    anna.sync()
    ben.sync()
    anna.share()
    assert anna.sync().conversations == 1
    ben.sync()
    assert ben.evidence(rule)[1] == (MESSAGES[0][1],)
    assert ben.problems() == []
    with ben.open() as space, anna.open() as own:
        assert conversations(space)[0].segments == conversations(own)[0].segments
        assert conversations(space)[0].withheld is None
        assert {one.status for one in knowledge(space)} == {"active", "candidate"}


def test_messages_added_after_a_conversation_was_shared_are_withheld_and_nothing_disappears(people):
    anna, ben = people
    anna.store_session(MESSAGES[:2])
    anna.share()
    anna.sync()
    ben.sync()
    anna.share("shared_scopes = []\n")
    anna.store_session()
    decision = anna.confirm(DECISION)
    anna.sync()
    ben.sync()
    with ben.open() as space:
        (source,) = [one for one in conversations(space) if one.status == "active"]
        assert [part.excerpt for part in source.segments] == [text for _, text in MESSAGES[:2]]
    assert ben.item(decision).status == "active"
    assert ben.evidence(decision)[1] == ("",)
    assert ben.problems() == []


def test_erased_conversation_takes_its_notice_and_its_rule_with_it(people):
    anna, ben = people
    anna.store_session()
    rule = anna.confirm(RULE)
    anna.sync()
    ben.sync()
    with anna.open() as space:
        (source,) = conversations(space)
        space.erase([source.id])
    anna.sync()
    ben.sync()
    assert anna.item(rule).status == ben.item(rule).status == "stale"
    with ben.open() as space:
        assert conversations(space) == []


def test_message_that_its_author_removed_no_longer_supports_a_rule(people):
    anna, ben = people
    anna.store_session()
    rule = anna.confirm(RULE)
    anna.sync()
    ben.sync()
    with anna.open() as space:
        space.perform("discussion delete", input={"id": "s-anna", "positions": [0]})
    anna.sync()
    ben.sync()
    assert anna.item(rule).status == ben.item(rule).status == "stale"


def test_proof_of_a_rule_with_withheld_evidence_verifies(people, tmp_path):
    anna, ben = people
    anna.store_session()
    anna.confirm(RULE)
    anna.sync()
    ben.sync()
    proof = tmp_path / "rule.proof"
    assert run(["query", "Is fmt.Println used in library code?", "--proof", str(proof)]) == 0
    assert run(["verify", str(proof)]) == 0
    assert "Conversation of anna on " in proof.read_text()


def test_evidence_cannot_be_added_to_a_withheld_conversation(people):
    anna, ben = people
    anna.store_session()
    anna.confirm(RULE)
    anna.sync()
    ben.sync()
    with ben.open() as space:
        (source,) = conversations(space)
        fields = {"kind": "constraint", "title": "Mine", "payload": {"rule": "Mine"}, "status": "active"}
        ref = EvidenceRef(source_id=source.id, segment_id=next(iter(source.withheld.hashes)))
        with pytest.raises(treering.TreeringError):
            space.crystallize("knowledge", input={**fields, "evidence_refs": [ref.model_dump()]})


def test_opening_a_withheld_passage_says_that_it_is_not_shared(people):
    anna, ben = people
    anna.store_session()
    anna.confirm(RULE)
    anna.sync()
    ben.sync()
    with ben.open() as space:
        (source,) = conversations(space)
        (segment_id,) = source.withheld.hashes
        (opened,) = space.query("expand", input={"ids": [f"{source.id} {segment_id}"]}).items
    assert (opened.withheld, opened.text, opened.places) == (True, "", (source.title,))


def test_first_sync_that_withholds_reports_the_conversations_sent_before(people):
    anna, _ = people
    anna.store_session()
    anna.share()
    anna.sync()
    anna.share("shared_scopes = []\n")
    homes = Settings.read().data_dir.glob("sync/*")
    (state,) = [one / "state.json" for one in homes if one.is_dir() and str(anna.file) in (one / "space").read_text()]
    state.write_text(state.read_text().replace('"withholds":true', '"withholds":false'))
    (warning,) = [one for one in anna.sync().warnings if "1 conversation sent before" in one]
    assert "stay with everyone who received them" in warning
    assert not [one for one in anna.sync().warnings if "sent before" in one]


def test_sync_reports_conversations_that_it_withholds(people, capsys):
    anna, _ = people
    anna.store_session()
    assert run(["sync", str(anna.remote)]) == 0
    assert "Not sent: 1 conversation with coding agents." in capsys.readouterr().out


def test_notice_with_text_is_refused(people):
    anna, _ = people
    anna.store_session()
    with anna.open() as space:
        (source,) = conversations(space)
    notice = notice_of(source, [], "anna")
    assert problem_of_notice(notice) == ""
    assert problem_of_notice(notice.model_copy(update={"segments": source.segments}))
    assert problem_of_notice(source)


def test_sessions_of_a_merged_file_are_not_sent_on(people, remote, tmp_path):
    anna, ben = people
    anna.store_session()
    ben.open().close()
    treering.merge(f"sqlite:{ben.file}", f"sqlite:{anna.file}")
    with ben.open() as space:
        assert conversations(space)
    ben.sync()
    third = Person("carl", tmp_path / "carl", remote, ben.patch)
    third.folder.mkdir()
    third.sync()
    with third.open() as space:
        assert conversations(space) == []
