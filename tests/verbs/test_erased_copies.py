"""Erasure of sentences that Treering copied from a file into objects derived from it."""

import json
import subprocess

import pytest

from space_parts import decide, note
from treering.ports.ledger import Selection

SENTENCE = "The vault code is zebra forty nine."
README = f"# Vault\n\n{SENTENCE}\n\nIt opens at eight.\n"


@pytest.fixture(autouse=True)
def data(tmp_path, monkeypatch):
    monkeypatch.setenv("TREERING_DATA_DIR", str(tmp_path / "data"))


@pytest.fixture
def repository(tmp_path):
    folder = tmp_path / "vault"
    (folder / "src").mkdir(parents=True)
    (folder / "src" / "door.py").write_text('"""Opens the door."""\n')
    (folder / "README.md").write_text(README)
    git(folder, "init", "-q")
    commit(folder)
    return folder


@pytest.fixture
def space(open_space, tmp_path):
    return open_space(f"sqlite:{tmp_path / 'db' / 'space.db'}", channel="user", actor="ada")


def git(folder, *arguments):
    subprocess.run(["git", "-C", folder, "-c", "user.name=A", "-c", "user.email=a@b.c", *arguments], check=True)


def commit(folder):
    git(folder, "add", "-A")
    git(folder, "commit", "-qm", "Change")


def read(space, folder, **options):
    return space.ingest("repo", input={"path": str(folder)}, options=options)


def erase(space, path, words="zebra"):
    hits = space.query("search", input={"text": words}, options={"descend": True}).hits
    return space.erase([next(hit.object_id for hit in hits if hit.origin.endswith(f"#{path}"))])


def found(space):
    """Return whether any read shows the words."""
    search = space.query("search", input={"text": "vault code zebra"}).hits
    pack = space.query("context", input={"task": "vault code"}).pack
    return "zebra" in f"{search} {pack.model_dump(exclude={'task', 'summary', 'missing_context'})}"


def in_files(tmp_path):
    return any(b"zebra" in file.read_bytes() for file in (tmp_path / "db").rglob("*") if file.is_file())


def test_a_repository_description_is_erased_with_its_readme(space, repository, tmp_path):
    read(space, repository)
    assert found(space)
    receipt = erase(space, "README.md")
    assert receipt.clean
    assert receipt.remaining == ()
    assert not found(space)
    assert not in_files(tmp_path)
    assert space.lint("structure").findings == ()
    space.engine.ledger.verify()


@pytest.mark.parametrize("change", ["none", "another file", "the README", "removed"])
def test_an_erased_description_does_not_return(space, repository, tmp_path, change):
    read(space, repository)
    erase(space, "README.md")
    if change == "another file":
        (repository / "src" / "lock.py").write_text('"""Closes the door."""\n')
    elif change == "the README":
        (repository / "README.md").write_text(f"{README}\nIt closes at nine.\n")
    elif change == "removed":
        (repository / "README.md").unlink()
    if change != "none":
        commit(repository)
    report = read(space, repository)
    assert not found(space)
    assert not [one for one in report.warnings if "erased" in one and "README.md" not in one]
    assert not in_files(tmp_path)


def test_an_earlier_description_is_erased_too(space, repository, tmp_path):
    read(space, repository)
    (repository / "README.md").write_text(README.replace(SENTENCE, "The code is secret."))
    commit(repository)
    read(space, repository)
    erase(space, "README.md", "opens at eight")
    assert not in_files(tmp_path)


def test_knowledge_about_a_repository_refers_to_its_new_node(space, repository):
    read(space, repository)
    node = next(one for one in space.engine.ledger.select(Selection(types=("node",))) if one.kind == "repo")
    quote = note(space, "The door is green.", origin="door.md")
    known = decide(space, "Paint the door green", quote, subject_refs=[node.id])
    receipt = erase(space, "README.md")
    assert node.id in receipt.ids
    new = next(one for one in space.engine.ledger.select(Selection(types=("node",))) if one.kind == "repo")
    assert space.engine.ledger.get(known).subject_refs == (new.id,)
    assert {link.type for link in space.engine.ledger.links(new.id)} >= {"part_of"}


def test_a_summary_from_an_api_description_is_erased_with_it(space, repository, tmp_path):
    info = {"title": "Door", "version": "1", "summary": "The zebra opens the door"}
    (repository / "openapi.json").write_text(json.dumps({"openapi": "3.0.0", "info": info, "paths": {}}))
    (repository / "README.md").unlink()
    commit(repository)
    read(space, repository)
    assert in_files(tmp_path)
    erase(space, "openapi.json")
    assert not in_files(tmp_path)


def test_an_erased_description_returns_on_request(space, repository):
    read(space, repository)
    erase(space, "README.md")
    read(space, repository, again=True)
    assert found(space)


def test_a_description_outlives_the_erasure_of_a_note_that_quotes_it(space, repository):
    read(space, repository)
    quote = note(space, SENTENCE, origin="quote.md")["source_id"]
    receipt = space.erase([quote])
    assert receipt.ids == (quote,)
    assert len(receipt.repeated_in) == 3
    (repository / "src" / "lock.py").write_text('"""Closes the door."""\n')
    commit(repository)
    read(space, repository)
    assert found(space)


def test_a_rewritten_description_is_not_trusted_more(space, repository):
    read(space, repository)
    before = channels(space)
    erase(space, "README.md")
    assert channels(space) == before


def channels(space):
    hits = space.query("search", input={"text": "repository python"}).hits
    return {hit.origin or hit.title: hit.trust for hit in hits}


def test_the_receipt_lists_what_repeats_a_sentence(space):
    quote = note(space, f"# Vault\n\n{SENTENCE} It opens at eight.", origin="vault.md")
    cites = decide(space, f"Change it because {SENTENCE}", quote)
    other = note(space, f"Bob wrote: {SENTENCE} Nothing else.", origin="other.md")["source_id"]
    says = decide(space, SENTENCE, note(space, "Bob said so.", origin="bob.md"))
    note(space, "The vault is green.", origin="green.md")
    receipt = space.erase([quote["source_id"]])
    assert receipt.repeated_in == tuple(sorted([cites, other, says]))


TITLE = "Saffron importer crashes on nested lists"


def test_the_receipt_lists_what_repeats_a_title(space):
    for scope in ("/c/bolt", "/c/acme"):
        space.crystallize("work_item", input={"title": TITLE}, scope=scope)
    quote = space.ingest("source", input={"text": f"To do: {TITLE}."}, scope="/c/acme").items[0].source_id
    (other,) = (item.id for item in space.engine.ledger.select(Selection("/c/acme", types=("work_item",))))
    assert space.erase(scope="/c/bolt").repeated_in == tuple(sorted([quote, other]))
