"""Places at a remote that somebody forged are passed over and named; all other copies sync as always."""

import json
import os
import shutil
import subprocess
from contextlib import closing
from pathlib import Path

import pytest
from attacks.forged_bundles import EVIL, FOLDERS, PLACES, REFS, WORDS, bundle, entry, many_places, place, put, sealed
from synced_copies import Clone, git

import treering
from treering.core.audit import GENESIS
from treering.extensions.sharing import bundles, sync
from treering.extensions.sharing.depots import MANIFEST
from treering.extensions.sharing.merging import log_name
from treering.extensions.sharing.sync import SyncWishes


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    place = tmp_path / "shared"
    place.mkdir()
    return place


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    git("init", "--quiet", "--bare", str(tmp_path / "remote.git"))
    return tmp_path / "remote.git"


def honest_and_reader(tmp_path: Path, remote: Path) -> tuple[Clone, Clone]:
    bob, ada = Clone(tmp_path, "bob", remote), Clone(tmp_path, "ada", remote)
    bob.tell("Bob's note.", "b.md")
    bob.sync()
    ada.tell("Ada's note.", "a.md")
    return bob, ada


def place_of(remote: Path, clone: Clone) -> Path:
    return remote / json.loads((clone.home / "state.json").read_text())["replica"]


def test_forged_places_are_passed_over_and_named(tmp_path: Path, folder: Path) -> None:
    _, ada = honest_and_reader(tmp_path, folder)
    for forged, made in PLACES.items():
        shutil.rmtree(folder / EVIL, ignore_errors=True)
        put(folder, made())
        report = ada.sync()
        assert (forged, report.passed_over) == (forged, (EVIL,))
        assert report.warnings[0].startswith(f"Skipped the changes of {EVIL}: ")
        assert len(report.warnings[0]) < 600
    assert ada.words() == {"Ada's note.", "Bob's note."}


def test_one_sync_passes_over_all_forged_places(tmp_path: Path, folder: Path) -> None:
    _, ada = honest_and_reader(tmp_path, folder)
    bad = (entry(at="2099-01-01T00:00:00Z"), entry(2, kind="no kind"), entry(3, seq=0))
    for number, made in enumerate(bad):
        name = f"{number:032x}"
        put(folder, place(bundle([made]), 1, name=name), name=name)
    report = ada.sync()
    assert ada.words() == {"Ada's note.", "Bob's note."}
    assert len(report.passed_over) == 3
    assert [word in told for word, told in zip(("2099", "kind", "number"), report.warnings, strict=True)] == [True] * 3


@pytest.mark.parametrize("forged", REFS)
def test_odd_refs_stop_no_sync(tmp_path: Path, repository: Path, forged: str) -> None:
    _, ada = honest_and_reader(tmp_path, repository)
    REFS[forged](repository)
    assert ada.sync().sent == 1
    assert ada.words() == {"Ada's note.", "Bob's note."}


@pytest.mark.parametrize("forged", FOLDERS)
def test_odd_files_stop_no_sync(tmp_path: Path, folder: Path, forged: str) -> None:
    _, ada = honest_and_reader(tmp_path, folder)
    FOLDERS[forged](folder)
    assert ada.sync().passed_over == (EVIL,)
    assert ada.words() == {"Ada's note.", "Bob's note."}


def test_known_places_are_read_before_a_crowd(
    tmp_path: Path, repository: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sync, "MAX_PLACES", 3)
    bob, ada = honest_and_reader(tmp_path, repository)
    ada.sync()
    many_places(repository, 40)
    bob.tell("Later.", "c.md")
    bob.sync()
    report = ada.sync()
    assert "Later." in ada.words()
    assert report.warnings[-1] == "Skipped 38 copies: one sync reads at most 3."


def test_place_is_read_again_whole_once_it_is_mended(tmp_path: Path, folder: Path) -> None:
    bob, ada = honest_and_reader(tmp_path, folder)
    cleo = Clone(tmp_path, "cleo", folder)
    cleo.tell("Cleo's note.", "c.md")
    cleo.sync()
    manifest = place_of(folder, bob) / MANIFEST
    whole = manifest.read_bytes()
    manifest.write_bytes(b"{")
    assert ada.sync().passed_over == (manifest.parent.name,)
    assert ada.words() == {"Ada's note.", "Cleo's note."}
    manifest.write_bytes(whole)
    assert ada.sync().passed_over == ()
    assert ada.words() == {"Ada's note.", "Bob's note.", "Cleo's note."}


def test_link_to_what_was_passed_over_comes_later(tmp_path: Path, folder: Path) -> None:
    bob, cleo, ada = (Clone(tmp_path, name, folder) for name in ("bob", "cleo", "ada"))
    target = bob.tell("Bob's note.", "b.md")
    bob.sync()
    cleo.sync()
    cleo.link(cleo.tell("Cleo's note.", "c.md"), target)
    cleo.sync()
    (file,) = place_of(folder, bob).glob("*.bundle")
    whole = file.read_bytes()
    file.unlink()
    ada.sync()
    file.write_bytes(whole)
    for _ in range(2):
        assert ada.sync().passed_over == ()
    assert ada.links(target) == cleo.links(target) != []


def signing_key(tmp_path: Path) -> tuple[Path, Path]:
    key, signers = tmp_path / "key", tmp_path / "signers"
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "ada@example.org", "-f", str(key)], check=True)
    signers.write_text(f"ada@example.org {key.with_name('key.pub').read_text()}")
    return key, signers


def forged_into(manifest: Path) -> bytes:
    """Return a manifest with a forged bundle behind its own ones, as somebody without a key writes it."""
    body = {key: part for key, part in json.loads(manifest.read_bytes()).items() if key not in ("digest", "signature")}
    made = place(bundle([entry()]), 1)
    name, data = next((name, data) for name, data in made.items() if name != MANIFEST)
    (manifest.parent / name).write_bytes(data)
    note = json.loads(made[MANIFEST])["bundles"][0]
    return sealed({**body, "bundles": [*body["bundles"], note]})


@pytest.mark.parametrize("remembers", ["its state", "a state of an older version", "nothing but its name"])
def test_forged_bundle_gets_no_signature(tmp_path: Path, folder: Path, remembers: str) -> None:
    key, signers = signing_key(tmp_path)
    ada, bob = Clone(tmp_path, "ada", folder), Clone(tmp_path, "bob", folder)
    ada.tell("Ada's note.", "a.md")
    ada.sync(SyncWishes(key=key))
    manifest = place_of(folder, ada) / MANIFEST
    manifest.write_bytes(forged_into(manifest))
    state = json.loads((ada.home / "state.json").read_text())
    if remembers != "its state":
        more = {"read": {}} if remembers == "a state of an older version" else {}
        (ada.home / "state.json").write_text(json.dumps({"replica": state["replica"], **more}))
    ada.tell("Another.", "b.md")
    report = ada.sync(SyncWishes(push=True, fetch=False, key=key))
    assert report.sent == 2
    bob.sync(SyncWishes(push=False, signers=signers))
    assert bob.words() == {"Ada's note.", "Another."}
    assert WORDS not in bob.words()
    assert len(list(manifest.parent.glob("*.bundle"))) == 1


def test_signed_place_changed_by_others_is_mended_without_news(tmp_path: Path, folder: Path) -> None:
    key, signers = signing_key(tmp_path)
    ada, bob = Clone(tmp_path, "ada", folder), Clone(tmp_path, "bob", folder)
    ada.tell("Ada's note.", "a.md")
    ada.sync(SyncWishes(key=key))
    manifest = place_of(folder, ada) / MANIFEST
    manifest.write_bytes(forged_into(manifest))
    assert "were modified or lost there" in ada.sync(SyncWishes(key=key)).warnings[0]
    bob.sync(SyncWishes(push=False, signers=signers))
    assert bob.words() == {"Ada's note."}
    assert ada.sync(SyncWishes(key=key)).warnings == ()


def test_bundle_lost_at_the_remote_is_sent_again(tmp_path: Path, folder: Path) -> None:
    ada, bob = Clone(tmp_path, "ada", folder), Clone(tmp_path, "bob", folder)
    ada.tell("First.", "a.md")
    ada.sync()
    (lost,) = place_of(folder, ada).glob("*.bundle")
    ada.tell("Second.", "b.md")
    ada.sync()
    lost.unlink()
    assert "missing or was modified" in bob.sync().warnings[0]
    report = ada.sync()
    assert (report.sent, "were modified or lost there" in report.warnings[0]) == (2, True)
    assert bob.sync().warnings == ()
    assert bob.words() == {"First.", "Second."}


def test_place_lost_at_the_remote_is_sent_again(tmp_path: Path, repository: Path) -> None:
    ada, bob = Clone(tmp_path, "ada", repository), Clone(tmp_path, "bob", repository)
    ada.tell("First.", "a.md")
    ada.sync()
    for ref in git("-C", str(repository), "for-each-ref", "--format=%(refname)").split():
        git("-C", str(repository), "update-ref", "-d", ref)
    assert ada.sync().sent == 1
    bob.sync()
    assert bob.words() == {"First."}


def test_bundles_before_a_lost_one_are_merged(tmp_path: Path, folder: Path) -> None:
    ada, bob = Clone(tmp_path, "ada", folder), Clone(tmp_path, "bob", folder)
    for number in range(3):
        ada.tell(f"Note {number}.", f"{number}.md")
        ada.sync()
    notes = json.loads((place_of(folder, ada) / MANIFEST).read_text())["bundles"]
    (place_of(folder, ada) / notes[1]["name"]).unlink()
    bob.sync()
    assert bob.words() == {"Note 0."}


def test_withheld_objects_remove_no_remote_bundle(tmp_path: Path, repository: Path) -> None:
    ada, bob, late = (Clone(tmp_path, name, repository) for name in ("ada", "bob", "late"))
    gone = ada.tell("Erased at Bob's.", "a.md")
    ada.sync(SyncWishes(fetch=False))
    bob.tell("Bob's note.", "b.md")
    bob.sync()
    bob.erase(gone)
    bob.sync(SyncWishes(fetch=False))
    (bob.home / "state.json").write_text((bob.home / "state.json").read_text().replace('"read":{', '"read":{},"x":{'))
    bob.tell("Later.", "c.md")
    assert bob.sync().received.withheld > 0  # type: ignore[union-attr]
    late.sync()
    assert late.words() == {"Bob's note.", "Later."}


def test_shipped_state_of_another_log_is_not_believed(tmp_path: Path, folder: Path) -> None:
    bob, ada = honest_and_reader(tmp_path, folder)
    with closing(treering.open_ledger(str(ada.file))) as ledger:
        log = log_name(ledger)
    read = [note["sha256"] for note in json.loads((place_of(folder, bob) / MANIFEST).read_text())["bundles"]]
    left = {"head": {"seq": 0, "hash": GENESIS}, "bundles": [], "manifest": "0" * 64}
    for name in ("", "aud:00000000000000000000000000"):
        ada.home.mkdir(exist_ok=True)
        shipped = {"replica": EVIL, "log": name, "read": {str(folder): read}, "left": {str(folder): left}}
        (ada.home / "state.json").write_text(json.dumps(shipped))
        ada.sync()
    assert ada.words() == {"Ada's note.", "Bob's note."}
    assert json.loads((ada.home / "state.json").read_text())["log"] == log


def test_links_in_ones_own_place_are_not_followed(tmp_path: Path, folder: Path) -> None:
    _, ada = honest_and_reader(tmp_path, folder)
    ada.sync()
    profile = tmp_path / "profile"
    profile.write_text("mine")
    manifest = place_of(folder, ada) / MANIFEST
    manifest.unlink()
    manifest.symlink_to(profile)
    ada.tell("Later.", "c.md")
    ada.sync()
    assert profile.read_text() == "mine"
    assert not manifest.is_symlink()


@pytest.mark.parametrize("signature", ["text", ["list"], {"signer": "ada"}, {"signer": "a\0b", "ssh": ""}, 7, {}, None])
def test_malformed_signature_is_passed_over(tmp_path: Path, folder: Path, signature: object) -> None:
    _, signers = signing_key(tmp_path)
    made = place(bundle([entry()]), 1)
    put(folder, {**made, MANIFEST: json.dumps({**json.loads(made[MANIFEST]), "signature": signature}).encode()})
    ada = Clone(tmp_path, "ada", folder)
    ada.tell("Ada's note.", "a.md")
    assert ada.sync(SyncWishes(signers=signers)).passed_over == (EVIL,)


def test_signers_that_are_missing_are_an_error(tmp_path: Path, folder: Path) -> None:
    _, ada = honest_and_reader(tmp_path, folder)
    with pytest.raises(treering.InvalidInput, match="file of allowed signers"):
        ada.sync(SyncWishes(signers=tmp_path / "nowhere"))


def test_repetitive_text_compresses_readably(tmp_path: Path, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bundles, "UNBOUNDED_BYTES", 1_000)
    ada, bob = Clone(tmp_path, "ada", folder), Clone(tmp_path, "bob", folder)
    words = "spam and eggs " * 20_000
    ada.tell(words, "a.md")
    ada.sync()
    assert bob.sync().passed_over == ()
    assert words in bob.words()


def test_unreadable_place_is_passed_over(tmp_path: Path, folder: Path) -> None:
    _, ada = honest_and_reader(tmp_path, folder)
    put(folder, place(bundle([entry()]), 1))
    (folder / EVIL / MANIFEST).chmod(0)
    if os.access(folder / EVIL / MANIFEST, os.R_OK):
        pytest.skip("this user may read everything")
    assert ada.sync().passed_over == (EVIL,)
    assert ada.words() == {"Ada's note.", "Bob's note."}
