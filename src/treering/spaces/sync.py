"""A memory that travels without a server: each copy of a space leaves bundles at a remote, and merges those of others.

At a git remote they lie under refs of their own (`refs/treering/<replica>`), else in a shared folder. Each copy writes
its own place only, so nobody waits for anybody. A bundle holds entries (`core.writing.versions`); the manifest beside
it names every bundle with its digest, and may be signed. After an erasure a copy writes its bundles anew.
"""

import hashlib
import json
import re
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, ClassVar
from uuid import uuid4

from pydantic import BaseModel, ConfigDict, ValidationError

from treering.core.audit import Anchor
from treering.core.canonical import canonical_json, digest
from treering.core.errors import Corrupt, Denied, InvalidInput
from treering.core.patch import Author
from treering.core.screening import screened
from treering.core.writing.journal import POLICY_CHANGED
from treering.core.writing.merging import Parent
from treering.core.writing.versions import ERASED, MergeEntry, linked_by_id
from treering.ports.ledger import Ledger
from treering.spaces.depots import Depot, Files, Kind, depot_at, kind_named, warnings_of
from treering.spaces.merging import MergeReport, entries, head_of, log_name, receive, waiting_patches
from treering.spaces.proof import signed
from treering.spaces.sync_home import STATE, make_own_folder
from treering.system.machine import held_alone, replace_file
from treering.system.proof_checking import NotProven, check_signature
from treering.verbs.envelope import Value

FORMAT = "treering-bundles"
VERSION = 2
TOOL = "sync"
MANIFEST = "manifest.json"
MOST_BUNDLES = 48
"""A copy that has left more writes them anew, as one."""

_MOST_BYTES = 1 << 30  # of a bundle, unpacked
_MOST_TOLD = 5
_NAME = re.compile(r"[0-9a-f]{32}")


class SyncReport(Value):
    """What came, what went, and what was passed over."""

    remote: str
    replica: str
    received: MergeReport | None
    replicas: int
    """Other copies that have left something."""
    sent: int
    """Entries that were sent."""
    bytes: int
    """Bytes of the bundles that were sent."""
    waiting: tuple[str, ...] = ()
    """Patches that wait for review here: they are not sent."""
    warnings: tuple[str, ...] = ()


class BundleNote(BaseModel):
    """What a manifest says of a bundle: its digest, and the last event of the log that it tells of."""

    model_config: ClassVar[ConfigDict] = ConfigDict(frozen=True, extra="forbid")

    name: str
    sha256: str
    last: int
    entries: int


class BundleManifest(BaseModel):
    """What a copy has left: its log's head, and its bundles in order."""

    model_config: ClassVar[ConfigDict] = ConfigDict(frozen=True, extra="forbid")

    format: str
    version: int
    replica: str
    log: str
    head: Anchor
    bundles: tuple[BundleNote, ...]


@dataclass(frozen=True, slots=True)
class SyncWishes:
    """How to sync: which ways, with which key what is sent is signed, and who may have signed what comes."""

    fetch: bool = True
    push: bool = True
    key: Path | None = None
    signers: Path | None = None


@dataclass(slots=True)
class _State:
    """What a copy remembers of its syncs: its name, by remote the bundles it has read, and by path what it is."""

    replica: str
    read: dict[str, list[str]]
    kinds: dict[str, Kind]
    log: str = ""
    """The name of the space's log when it last synced."""
    head: tuple[int, str] = (0, "")
    """The head of that log then: its number and its hash."""


def sync(ledger: Ledger, home: Path, remote: str, *, by: Author, folder: Path, wishes: SyncWishes) -> SyncReport:
    """Bring what others left at a remote, and leave there what they do not have.

    `home`: the folder that remembers what was read (`home_of_syncs`). `folder`: where a remote's name is looked up.
    Raises `Denied` where what would leave holds a secret: nothing left then. Raises `Unavailable` without the remote.
    """
    make_own_folder(home)
    with held_alone(home / "lock", wait=True):
        state = _state(home)
        if head_of(ledger, state.head[0]) != Anchor(seq=state.head[0], hash=state.head[1]):
            state.read = {}  # the space was restored from a copy, or made again: what it read since is not in it
        depot = depot_at(remote, home / "git", folder=folder, kinds=state.kinds)
        _remember(home, state)  # what the remote is counts from now on, however this sync ends
        report = _sync(ledger, depot, state, by=by, wishes=wishes)
        head = head_of(ledger, ledger.sequence())
        state.log, state.head = log_name(ledger), (head.seq, head.hash)
        _remember(home, state)
    return report.model_copy(update={"warnings": (*warnings_of(depot), *report.warnings)})


def _sync(ledger: Ledger, depot: Depot, state: _State, *, by: Author, wishes: SyncWishes) -> SyncReport:
    there, warnings = depot.places(), list[str]()
    known = _own(ledger, depot, state, there)
    received: MergeReport | None = None
    if wishes.fetch:
        others = [name for name in there if name != state.replica]
        received = _fetch(ledger, depot, others, state, warnings, by=by, wishes=wishes)
        warnings += received.warnings if received else ()
        if received and (received.erased or received.withheld):
            # Others may still hold what was erased: what was brought of it goes, and is read again next time.
            depot.forget()
            state.read.pop(depot.name, None)
    sent, size = _push(ledger, depot, state, known, wishes) if wishes.push else (0, 0)
    return SyncReport(
        remote=depot.name,
        replica=state.replica,
        received=received,
        replicas=len([name for name in there if name != state.replica]),
        sent=sent,
        bytes=size,
        waiting=waiting_patches(ledger) if wishes.push else (),
        warnings=tuple(warnings),
    )


def _fetch(
    ledger: Ledger,
    depot: Depot,
    others: Sequence[str],
    state: _State,
    warnings: list[str],
    *,
    by: Author,
    wishes: SyncWishes,
) -> MergeReport | None:
    read = set(state.read.get(depot.name, ()))
    coming: list[MergeEntry] = []
    parents: list[Parent] = []
    found: list[str] = []
    for name in others:
        try:
            manifest = _manifest(depot.read(name, [MANIFEST]), name, wishes.signers)
            new = [note for note in manifest.bundles if note.sha256 not in read]
            files = depot.read(name, [note.name for note in new])
            told = [entry for note in new for entry in unpacked(files, note)]
        except (Corrupt, Denied, InvalidInput) as error:
            warnings.append(f"What {name} left is passed over: {error.message}")
            continue
        found += [note.sha256 for note in new]
        coming += told
        if new:
            parents.append(Parent(manifest.log, manifest.head))
    if not found:
        return None
    author = by.model_copy(update={"tool": f"{TOOL} {depot.name}"[:200]})
    report = receive(ledger, coming, tuple(parents), by=author, reason=f"Synced with {depot.name}")
    state.read[depot.name] = sorted(read.union(found))
    return report


def _push(
    ledger: Ledger, depot: Depot, state: _State, known: BundleManifest | None, wishes: SyncWishes
) -> tuple[int, int]:
    notes, after = (list(known.bundles), known.head.seq) if known else ([], 0)
    since = list(ledger.events(after=after))
    anew = any(event.event_type in (ERASED, POLICY_CHANGED) for event in since) or len(notes) >= MOST_BUNDLES
    if anew:
        notes, after = [], 0
    leaving = list(linked_by_id(_leaving(ledger, depot, after)))
    if not leaving and not anew:
        return 0, 0
    _check_secrets(leaving)
    head = head_of(ledger, ledger.sequence()) if not since else Anchor(seq=since[-1].seq, hash=since[-1].hash)
    files: Files = {}
    if leaving:
        data = packed(leaving)
        sha256 = hashlib.sha256(data).hexdigest()
        note = BundleNote(name=f"{sha256[:32]}.bundle", sha256=sha256, last=head.seq, entries=len(leaving))
        notes, files[note.name] = [*notes, note], data
    manifest = BundleManifest(
        format=FORMAT, version=VERSION, replica=state.replica, log=log_name(ledger), head=head, bundles=tuple(notes)
    )
    files[MANIFEST] = _written(manifest, wishes.key)
    depot.send(state.replica, files, keep=[note.name for note in notes])
    if anew:
        depot.forget()
    return len(leaving), sum(map(len, files.values()))


def _own(ledger: Ledger, depot: Depot, state: _State, there: Iterable[str]) -> BundleManifest | None:
    """Return what this copy left last. Where somebody else goes by its name, it takes another one."""
    if state.replica not in there:
        return None
    try:
        known = _manifest(depot.read(state.replica, [MANIFEST]), state.replica, None)
    except (Corrupt, InvalidInput):
        return None
    if head_of(ledger, known.head.seq) == known.head:
        return known
    state.replica = uuid4().hex
    return None


def _leaving(ledger: Ledger, depot: Depot, after: int) -> Iterator[MergeEntry]:
    """Return the entries that this remote did not bring."""
    tool = f"{TOOL} {depot.name}"[:200]
    brought: dict[str, bool] = {}
    theirs: set[str] = set()
    for event in ledger.events(after=after):
        if event.merged and "event" in event.merged:
            if event.patch_id not in brought:
                brought[event.patch_id] = ledger.patch(event.patch_id).source.tool == tool
            if brought[event.patch_id]:
                theirs.add(event.merged["event"])
    return (entry for entry in entries(ledger, after=after) if entry.event not in theirs)


def _check_secrets(leaving: Iterable[MergeEntry]) -> None:
    found: dict[str, list[str]] = {}
    for entry in leaving:
        parts = (entry.after, entry.reason, entry.before if not isinstance(entry.before, str) else None)
        for secret in (secret for part in parts if part for secret in screened(part).secrets):
            found.setdefault(entry.target, []).append(secret.kind)
    if found:
        shown = ", ".join(f"{target} ({', '.join(sorted(set(kinds)))})" for target, kinds in found.items())
        raise Denied(
            f"{len(found)} objects hold what looks like a secret, so nothing was sent: {shown}.",
            hint="Erase them (`treering erase`), or put their scope into private_scopes of the policy file.",
            details={"ids": list(found)},
        )


def packed(leaving: Iterable[MergeEntry]) -> bytes:
    """Write entries as a bundle: a line of JSON for each, compressed."""
    lines = (entry.model_dump_json() for entry in leaving)
    return zlib.compress("\n".join(lines).encode(), 9)


def unpacked(files: Mapping[str, bytes], note: BundleNote) -> list[MergeEntry]:
    """Read a bundle. Raises `Corrupt` where it is not what the manifest says, or no bundle."""
    data = files.get(note.name, b"")
    if hashlib.sha256(data).hexdigest() != note.sha256:
        raise Corrupt(f"The bundle {note.name} is missing or changed.", hint="Let its author sync again.")
    try:
        reading = zlib.decompressobj()
        text = reading.decompress(data, _MOST_BYTES)
        if reading.unconsumed_tail:
            raise Corrupt(f"The bundle {note.name} is too large.", hint="Let its author sync more often.")
        return [MergeEntry.model_validate_json(line) for line in text.splitlines()]
    except (zlib.error, ValidationError) as error:
        raise Corrupt(f"The bundle {note.name} cannot be read.", hint="Let its author sync again.") from error


def _written(manifest: BundleManifest, key: Path | None) -> bytes:
    body: dict[str, Any] = manifest.model_dump(mode="json")
    text = canonical_json({**body, "digest": digest(canonical_json(body))})
    return (signed(text, key) if key else f"{text}\n").encode()


def _manifest(files: Mapping[str, bytes], name: str, signers: Path | None) -> BundleManifest:
    """Read a manifest. Raises `Corrupt` for what is none, `Denied` where nobody who may has signed it."""
    try:
        said: dict[str, Any] = json.loads(files.get(MANIFEST, b""))
        body = {key: part for key, part in said.items() if key not in ("digest", "signature")}
        manifest = BundleManifest.model_validate(body)
    except (ValueError, AttributeError) as error:
        raise Corrupt("its manifest cannot be read.", hint="Let its author sync again.") from error
    if manifest.format != FORMAT or manifest.version > VERSION:
        raise InvalidInput("it is not of a version this Treering can read.", hint="Upgrade Treering.")
    if manifest.replica != name or said.get("digest") != digest(canonical_json(body)):
        raise Corrupt("its manifest was changed.", hint="Let its author sync again.")
    if signers:
        try:
            check_signature(said, signers)
        except NotProven as error:
            raise Denied(f"{error}.", hint="Add its author to the file of signers.") from error
    return manifest


def _state(home: Path) -> _State:
    try:
        said = json.loads((home / STATE).read_text(encoding="utf-8"))
        replica, read = str(said["replica"]), {str(name): list(map(str, known)) for name, known in said["read"].items()}
        head = (int(said["head"][0]), str(said["head"][1])) if "head" in said else (0, "")
        kinds = {str(path): kind_named(kind) for path, kind in said.get("kinds", {}).items()}
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return _State(uuid4().hex, {}, {})
    return _State(replica if _NAME.fullmatch(replica) else uuid4().hex, read, kinds, str(said.get("log", "")), head)


def _remember(home: Path, state: _State) -> None:
    replace_file(home / STATE, json.dumps(asdict(state)).encode())
