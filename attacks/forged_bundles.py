"""Places at a remote that no copy of a space would leave, as somebody with write access and no key makes them."""

import hashlib
import json
import os
import subprocess
import zlib
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

from treering.core.canonical import canonical_json, digest
from treering.core.evidence import segment_hash
from treering.extensions.sharing.depots import MANIFEST, Files, depot_at

EVIL = "e" * 32
"""The name of the forged place: it comes behind most others."""

WORDS = "Payments go to account 666."
Entry = dict[str, Any]


def entry(number: int = 1, words: str = WORDS, **changes: Any) -> Entry:
    """Make the entry of a note that came, with fields changed."""
    salt = f"{number:032x}"
    segment = {
        "segment_id": "seg_0000000000001",
        "locator": {"type": "section", "heading": "", "offset": 0},
        "excerpt": words,
        "hash": segment_hash(words, salt=salt),
        "position": 0,
    }
    source = {
        "type": "source",
        "id": f"src:{number:026d}",
        "scope": "/",
        "created_at": "2026-01-01T00:00:00Z",
        "updated_at": "2026-01-01T00:00:00Z",
        "salt": salt,
        "kind": "note",
        "origin": f"evil{number}.md",
        "captured_at": "2026-01-01T00:00:00Z",
        "segments": [segment],
    }
    made = {
        "event": f"aud:{number:026d}",
        "at": "2026-01-01T00:00:00Z",
        "seq": number,
        "kind": "created",
        "actor": "ada",
        "channel": "user",
        "patch": f"patch:{number:026d}",
        "target": source["id"],
        "after": source,
    }
    return {**made, **changes}


def with_state(**changes: Any) -> Entry:
    """Make an entry of which the object that came is changed."""
    made = entry()
    return {**made, "after": {**made["after"], **changes}}


def with_text(**changes: Any) -> Entry:
    """Make an entry of which the text that came is changed."""
    made = entry()
    return with_state(segments=[{**made["after"]["segments"][0], **changes}])


def bundle(entries: Iterable[Entry]) -> bytes:
    """Write entries as a bundle."""
    return zlib.compress("\n".join(map(json.dumps, entries)).encode())


def place(data: bytes, count: int, *, name: str = EVIL, **changes: Any) -> Files:
    """Make a manifest that names one bundle, with fields changed, and its bundle."""
    sha256 = hashlib.sha256(data).hexdigest()
    note = {"name": f"{sha256[:32]}.bundle", "sha256": sha256, "last": 1, "entries": count}
    body = {
        "format": "treering-bundles",
        "version": 2,
        "replica": name,
        "log": f"aud:{1:026d}",
        "head": {"seq": 1, "hash": "0" * 40},
        "bundles": [note],
        **changes,
    }
    return {MANIFEST: sealed(body), note["name"]: data}


def sealed(body: Mapping[str, Any]) -> bytes:
    """Write a manifest with the digest that goes with it."""
    return canonical_json({**body, "digest": digest(canonical_json(body))}).encode()


def put(remote: Path, files: Files, *, name: str = EVIL) -> None:
    """Leave files at a remote: a bare repository, or a folder."""
    cache = remote.with_name(f"{remote.name}.forger")
    depot = depot_at(str(remote), cache, folder=remote, kinds={})
    depot.places()
    depot.send(name, files, keep=())


def _entries(*made: Entry) -> Files:
    return place(bundle(made), len(made))


def _manifest(data: bytes) -> Files:
    return {MANIFEST: data}


def _bomb(text: bytes, times: int) -> Files:
    made = zlib.compressobj(9)
    data = b"".join([*(made.compress(text) for _ in range(times)), made.flush()])
    return place(data, 1)


def _head(seq: int, head: str = "0" * 40) -> Files:
    return place(bundle([entry()]), 1, head={"seq": seq, "hash": head})


_LINK = ["about", f"src:{1:026d}", f"src:{2:026d}"]

PLACES: Mapping[str, Callable[[], Files]] = {
    "a deep manifest": lambda: _manifest(b"[" * 200_000),
    "a deep object": lambda: _manifest(b'{"a":' * 100_000),
    "a manifest that is a list": lambda: _manifest(b"[]"),
    "a manifest that is a text": lambda: _manifest(b'"x"'),
    "a manifest that is not UTF-8": lambda: _manifest(b"\xff\xfe\x00"),
    "a number of 5,000 digits": lambda: _manifest(b'{"version":' + b"9" * 5_000 + b"}"),
    "a manifest of two megabytes": lambda: _manifest(b" " * (2 << 20)),
    "no manifest": lambda: {f"{'0' * 32}.bundle": b"x"},
    "half a surrogate": lambda: _manifest(b'{"log":"\\ud800","replica":"' + EVIL.encode() + b'"}'),
    "a head before the first": lambda: _head(-5),
    "a head of thirty digits": lambda: _head(10**30),
    "a head whose hash is none": lambda: _head(1, "x" * 40),
    "the name of a log of three megabytes": lambda: place(bundle([entry()]), 1, log="a" * 3_000_000),
    "the name of a log that is a path": lambda: place(bundle([entry()]), 1, log="../../etc/passwd"),
    "a number that is a fraction": lambda: place(bundle([entry()]), 1, version=2.5),
    "a bundle named by a way out": lambda: place(
        b"", 0, bundles=[{"name": "../../x.bundle", "sha256": "0" * 64, "last": 1, "entries": 1}]
    ),
    "a thousand bundles": lambda: place(
        b"",
        0,
        bundles=[{"name": f"{n:032x}.bundle", "sha256": f"{n:064x}", "last": 1, "entries": 1} for n in range(1_000)],
    ),
    "a bundle that is lost": lambda: {MANIFEST: place(bundle([entry()]), 1)[MANIFEST]},
    "a bundle of another digest": lambda: {**(made := _entries(entry())), [*made][1]: b"other"},
    "a bomb of zeros": lambda: _bomb(b"0" * (1 << 20), 40),
    "a bomb of lines": lambda: _bomb(b"\n" * (1 << 20), 40),
    "a bomb within a change": lambda: _bomb(b'{"event":"' + b"a" * (1 << 20), 40),
    "a bundle cut short": lambda: place(bundle([entry(), entry(2)])[:-9], 2),
    "a bundle that goes on": lambda: place(bundle([entry()]) + b"more", 1),
    "a bundle that is not compressed": lambda: place(b'{"event":1}', 1),
    "fewer changes than it says": lambda: place(bundle([entry()]), 2),
    "more changes than it says": lambda: place(bundle([entry(), entry(2)]), 1),
    "a deep change": lambda: place(zlib.compress(b'{"event":' + b"[" * 100_000), 1),
    "a change that is a number": lambda: place(zlib.compress(b"1"), 1),
    "a change of the year 2099": lambda: _entries(entry(at="2099-01-01T00:00:00Z")),
    "a change of the year 1": lambda: _entries(entry(at="0001-01-01T00:00:00+14:00")),
    "a change of the last year": lambda: _entries(entry(at="9999-12-31T23:59:59-14:00")),
    "a change of no zone": lambda: _entries(entry(at="2026-01-01T00:00:00")),
    "a bad kind": lambda: _entries(entry(kind="no kind; DROP TABLE")),
    "the kind of a merge": lambda: _entries(entry(kind="space_merged")),
    "the kind of an erasure": lambda: _entries(entry(kind="erased")),
    "a bad hash": lambda: _entries(with_text(hash="0" * 40)),
    "an id that is none": lambda: _entries(entry(event="x" * 1_000_000)),
    "a patch that is none": lambda: _entries(entry(patch="")),
    "a change of the policy": lambda: _entries(entry(target="policy")),
    "a change of another object": lambda: _entries(entry(target=f"src:{9:026d}")),
    "a number before the first": lambda: _entries(entry(seq=0)),
    "a number of thirty digits": lambda: _entries(entry(seq=10**30)),
    "an author of a megabyte": lambda: _entries(entry(actor="a" * 1_000_000)),
    "the kind of a link": lambda: _entries(entry(kind="linked")),
    "the kind of a link that went": lambda: _entries(entry(kind="unlinked", added=False)),
    "a link and a note": lambda: _entries(entry(kind="linked", link=_LINK)),
    "a link that neither came nor went": lambda: _entries(entry(kind="linked", after=None, link=_LINK, added=False)),
    "a link of no kind": lambda: _entries(entry(kind="linked", after=None, link=["owns", *_LINK[1:]])),
    "a link to nowhere": lambda: _entries(entry(kind="linked", after=None, link=[*_LINK[:2], "x" * 100_000])),
    "a salt that is no salt": lambda: _entries(with_state(salt="é" * 64)),
    "an object of the year 2099": lambda: _entries(with_state(created_at="2099-01-01T00:00:00Z")),
    "a revision of thirty digits": lambda: _entries(with_state(revision=10**30)),
    "a scope that is a way out": lambda: _entries(with_state(scope="/../..")),
    "a text at no place": lambda: _entries(with_text(position=10**30)),
    "two texts of one name": lambda: _entries(with_state(segments=entry()["after"]["segments"] * 2)),
    "a bad change behind a good one": lambda: _entries(entry(), entry(2, at="2099-01-01T00:00:00Z")),
}
"""Each may be left by itself. Nothing of it may be merged, and it may keep nobody else from syncing."""


def _git(remote: Path, *arguments: str, given: bytes = b"") -> str:
    who = {f"GIT_{role}_{what}": "x@y" for role in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")}
    command = ["git", "-C", str(remote), *arguments]
    done = subprocess.run(command, input=given, check=True, capture_output=True, env={**os.environ, **who})
    return done.stdout.decode().strip()


def _commit(remote: Path, files: Mapping[str, bytes]) -> str:
    blobs = {name: _git(remote, "hash-object", "-w", "--stdin", given=data) for name, data in files.items()}
    lines = "".join(f"100644 blob {blob}\t{name}\0" for name, blob in blobs.items())
    tree = _git(remote, "mktree", "-z", given=lines.encode())
    return _git(remote, "commit-tree", tree, "-m", "x")


def _ref(remote: Path, name: str, target: str) -> None:
    _git(remote, "update-ref", f"refs/treering/{name}", target)


def many_places(remote: Path, count: int) -> None:
    """Leave places that hold nothing, each under a ref of its own."""
    commit = _commit(remote, {MANIFEST: b"{}"})
    given = "".join(f"create refs/treering/{number:032x} {commit}\n" for number in range(count))
    _git(remote, "update-ref", "--stdin", given=given.encode())


def _linked_tree(remote: Path) -> None:
    blob = _git(remote, "hash-object", "-w", "--stdin", given=b"/etc/passwd")
    tree = _git(remote, "mktree", given=f"120000 blob {blob}\t{MANIFEST}\n".encode())
    _ref(remote, EVIL, _git(remote, "commit-tree", tree, "-m", "x"))


REFS: Mapping[str, Callable[[Path], None]] = {
    "a ref to a blob": lambda remote: _ref(remote, EVIL, _git(remote, "hash-object", "-w", "--stdin", given=b"x")),
    "a ref to an empty tree": lambda remote: _ref(remote, EVIL, _git(remote, "mktree", given=b"")),
    "a nested ref": lambda remote: _ref(remote, f"{EVIL}/deep", _commit(remote, {MANIFEST: b"{}"})),
    "a ref of another name": lambda remote: _ref(remote, "none-of-ours", _commit(remote, {MANIFEST: b"{}"})),
    "a file with a space": lambda remote: _ref(
        remote, EVIL, _commit(remote, {"a b\tc\n.bundle": b"x", MANIFEST: b"{}"})
    ),
    "a manifest that is a link": _linked_tree,
}
"""Refs at a git remote that keep nobody from syncing."""


def _pipe(remote: Path) -> None:
    (remote / EVIL).mkdir()
    os.mkfifo(remote / EVIL / MANIFEST)


def _link(remote: Path, target: str) -> None:
    (remote / EVIL).mkdir()
    (remote / EVIL / MANIFEST).symlink_to(target)


FOLDERS: Mapping[str, Callable[[Path], None]] = {
    "a file in the place of a place": lambda remote: (remote / EVIL).write_bytes(b"x") and None,
    "a link to a folder": lambda remote: (remote / EVIL).symlink_to("/etc"),
    "a link to itself": lambda remote: (remote / EVIL).symlink_to(EVIL),
    "a manifest that is a pipe": _pipe,
    "a manifest that is a device": lambda remote: _link(remote, "/dev/zero"),
    "a manifest that is a link": lambda remote: _link(remote, "/etc/passwd"),
    "a manifest that is a folder": lambda remote: (remote / EVIL / MANIFEST).mkdir(parents=True),
}
"""What may be in a shared folder and keeps nobody from syncing."""
