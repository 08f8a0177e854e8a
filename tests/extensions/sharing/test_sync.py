"""Copies of a space exchange what they know over a git remote or a folder, with no server."""

import shutil
import subprocess
import zlib
from contextlib import closing
from pathlib import Path

import pytest
from examples import team_memory
from synced_copies import Clone, git, read

import treering
from sources.git_scratch import Scratch
from treering.core.errors import Denied, InvalidInput
from treering.core.policy import Policy
from treering.extensions.sharing.merging import difference
from treering.extensions.sharing.sync import SyncWishes
from treering.testing.builders import ADA


@pytest.fixture(params=["git", "folder"])
def remote(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    place = tmp_path / "remote"
    place.mkdir()
    if request.param == "git":
        git("init", "--quiet", "--bare", str(place))
    return place


def test_two_people_who_were_offline_know_the_same_after_they_have_both_synced(tmp_path: Path, remote: Path) -> None:
    ada, bob = Clone(tmp_path, "ada", remote), Clone(tmp_path, "bob", remote, days=1)
    for week in range(3):
        ada.tell(f"Ada noted {week}.", f"a{week}.md")
        bob.tell(f"Bob noted {week}.", f"b{week}.md")
    assert ada.sync().sent == 3
    assert bob.sync().sent == 3
    assert ada.sync().sent == 0
    assert ada.words() == bob.words() == {f"{who} noted {week}." for who in ("Ada", "Bob") for week in range(3)}
    with closing(treering.open_ledger(str(ada.file))) as one, closing(treering.open_ledger(str(bob.file))) as other:
        assert difference(one, other).differences == ()
        before = one.sequence()
    assert (ada.sync().received, ada.sync().sent) == (None, 0)
    ada.tell("Only this is new.", "new.md")
    assert ada.sync().sent == 1
    with closing(treering.open_ledger(str(ada.file))) as one:
        assert one.sequence() == before + 1


def test_sync_reports_its_progress(tmp_path: Path, remote: Path) -> None:
    ada, bob = Clone(tmp_path, "ada", remote), Clone(tmp_path, "bob", remote, days=1)
    ada.tell("Ada noted it.", "a.md")
    ada.sync()
    steps: list[tuple[str, int | None]] = []
    bob.sync(SyncWishes(progress=lambda what, _, total: steps.append((what, total))))
    reading = (f"Reading from {remote}", 1)
    assert steps == [reading, reading, ("Merging changes", 1)]


def test_what_one_erased_leaves_the_remote_and_every_copy(tmp_path: Path, remote: Path) -> None:
    ada, bob = Clone(tmp_path, "ada", remote), Clone(tmp_path, "bob", remote)
    gone = ada.tell("The word is quetzalcoatlus.", "a.md")
    bob.tell("Something else.", "b.md")
    ada.sync()
    bob.sync()
    ada.erase(gone)
    ada.sync()
    received = bob.sync().received
    assert received is not None
    assert received.erased == (gone,)
    late = Clone(tmp_path, "late", remote)
    late.tell("I am new.", "c.md")
    late.sync()
    assert ada.words() == {"Something else."}
    assert late.words() == {"Something else.", "I am new."}
    if (remote / "HEAD").exists():
        git("-C", str(remote), "gc", "--quiet", "--prune=now")
        listed = git("-C", str(remote), "cat-file", "--batch-all-objects", "--batch-check=%(objectname) %(objecttype)")
        blobs = [one.split()[0] for one in listed.splitlines() if one.endswith("blob")]
        data = [read(remote, one) for one in blobs]
    else:
        data = [file.read_bytes() for file in remote.rglob("*") if file.is_file()]
    assert data
    for one in data:
        text = one if one.startswith(b"{") else zlib.decompress(one)
        assert b"quetzalcoatlus" not in text
    for file in tmp_path.glob("*.db*"):
        assert not file.is_file() or b"quetzalcoatlus" not in file.read_bytes()


def test_a_secret_and_a_private_scope_do_not_leave(tmp_path: Path, remote: Path) -> None:
    ada, bob = Clone(tmp_path, "ada", remote), Clone(tmp_path, "bob", remote)
    ada.tell("Mine alone.", "m.md", scope="/me/notes")
    with closing(treering.open_ledger(str(ada.file))) as ledger:
        ledger.change_policy(Policy(private_scopes=frozenset({"/me"})), by=ADA)
    ada.tell("Ours.", "o.md")
    bob.tell("His.", "h.md")
    ada.sync()
    bob.sync()
    assert bob.words() == {"Ours.", "His."}
    secret = ada.tell("key AKIAIOSFODNN7EXAMPLE1 and AKIAQZ3VLXKDPT5M2WNB", "s.md")
    with pytest.raises(Denied, match=secret):
        ada.sync()
    bob.sync()
    assert bob.words() == {"Ours.", "His."}


def test_password_that_a_person_chose_is_not_sent(tmp_path: Path, remote: Path) -> None:
    ada = Clone(tmp_path, "ada", remote)
    secret = ada.tell("The staging login is ada, password=hunter2hunter2 until Friday.", "s.md")
    with pytest.raises(Denied, match=secret):
        ada.sync()


def test_only_what_a_known_signer_signed_is_taken(tmp_path: Path, remote: Path) -> None:
    ada, bob = Clone(tmp_path, "ada", remote), Clone(tmp_path, "bob", remote)
    key, signers = tmp_path / "key", tmp_path / "signers"
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "ada@example.org", "-f", str(key)], check=True)
    signers.write_text(f"ada@example.org {key.with_name('key.pub').read_text()}")
    ada.tell("Signed.", "a.md")
    bob.tell("Not signed.", "b.md")
    bob.sync()
    report = ada.sync(SyncWishes(key=key, signers=signers))
    assert report.received is None
    assert "not signed" in report.warnings[0]
    bob.sync(SyncWishes(push=False, signers=signers))
    assert bob.words() == {"Signed.", "Not signed."}
    assert ada.words() == {"Signed."}


def test_a_copy_of_a_space_with_its_memory_of_syncs_takes_a_name_of_its_own(tmp_path: Path, remote: Path) -> None:
    ada = Clone(tmp_path, "ada", remote)
    ada.tell("First.", "a.md")
    ada.sync()
    twin = Clone(tmp_path, "twin", remote)
    shutil.copy(ada.file, twin.file)
    shutil.copytree(ada.home, twin.home)
    ada.tell("Ada's.", "b.md")
    ada.sync()
    twin.tell("The twin's.", "c.md")
    twin.sync()
    ada.sync()
    twin.sync()
    assert ada.words() == twin.words() == {"First.", "Ada's.", "The twin's."}


def test_the_example_of_two_people_shows_a_contradiction_and_an_erasure(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TREERING_DATA_DIR", "the example sets it")
    team_memory.main()
    told = capsys.readouterr().out
    assert told.count("database port 5432 (contested), database port 6432 (contested)") == 2
    assert "Bob syncs: 1 objects erased." in told


def test_a_remote_that_is_none_is_refused(tmp_path: Path) -> None:
    ada = Clone(tmp_path, "ada", Path("nowhere"))
    ada.tell("First.", "a.md")
    git("init", "--quiet", str(tmp_path))
    with pytest.raises(InvalidInput, match="no remote 'nowhere'"):
        ada.sync()


def test_who_reads_a_branch_sends_along_which_branches_they_knew(remote: Path, tmp_path: Path) -> None:
    ada, bob = (Clone(tmp_path, name, remote) for name in ("ada", "bob"))
    scratch = Scratch(tmp_path / "acme")
    scratch.commit({"docs/queue.md": "# Queue\n\nThe queue keeps lavender.\n"})
    for clone, branch in ((ada, "main"), (bob, "feature")):
        scratch.git("switch", "-q", *(["-c"] if branch == "feature" else []), branch)
        scratch.commit({f"docs/{branch}.md": f"# {branch}\n\nOnly {branch} keeps clover.\n"})
        with treering.open(str(clone.file), background=False) as space:
            space.ingest("repo", "/", {"path": str(scratch.folder)})
    scratch.git("switch", "-q", "main")
    for clone in (ada, bob, ada):
        clone.sync()
    for clone in (ada, bob):
        with treering.open(str(clone.file), background=False) as space:
            for branch, found in (("main", ["docs/main.md"]), ("feature", ["docs/feature.md", "docs/main.md"])):
                hits = space.query("search", "/", {"text": "clover"}, {"at": branch}).hits
                assert sorted(hit.place.partition("#")[0] for hit in hits if "clover" in hit.text) == found
    with closing(treering.open_ledger(str(ada.file))) as ours, closing(treering.open_ledger(str(bob.file))) as theirs:
        assert difference(ours, theirs).differences == ()
