"""Share a memory without a server: each copy of a space writes bundles to a remote, and merges those of others.

At a git remote they are in refs of their own (`refs/treering/<replica>`), else in a shared folder. Each copy writes
only its own place, so copies need no lock. After an erasure a copy rewrites its bundles (`bundles`). It
identifies its own bundles by its state and log, never by the manifest at the remote.
"""

import hashlib
import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import count
from pathlib import Path

from treering.core.audit import ERASED, Anchor
from treering.core.counting import counted_things
from treering.core.errors import Corrupt, Denied, InvalidInput, Unavailable
from treering.core.objects import Source
from treering.core.patch import Author
from treering.core.screening import screened
from treering.core.writing.journal import POLICY_CHANGED
from treering.extensions.sharing.bundles import (
    FORMAT,
    VERSION,
    VERSION_WITH_NOTICES,
    BundleManifest,
    BundleNote,
    ReadBudget,
    packed,
    read_manifest,
    unpacked,
    written,
)
from treering.extensions.sharing.copying import head_of
from treering.extensions.sharing.depots import MANIFEST, Depot, Files, depot_at, warnings_of
from treering.extensions.sharing.merge_rules.entries import MergeEntry, linked_by_id
from treering.extensions.sharing.merge_rules.merge import Parent
from treering.extensions.sharing.merge_rules.notices import WITHHELD
from treering.extensions.sharing.merging import (
    Erasing,
    MergeReport,
    entries,
    erase_only,
    log_name,
    receive,
    waiting_patches,
)
from treering.extensions.sharing.sync_home import make_own_folder
from treering.extensions.sharing.sync_state import LeftAtRemote, SyncState, read_state, write_state
from treering.extensions.sharing.withholding import Outgoing
from treering.ports.ledger import Ledger
from treering.system.machine import held_alone
from treering.verbs.engine import Progress, silent
from treering.verbs.envelope import Value

TOOL = "sync"
MAX_OWN_BUNDLES = 48
"""A copy with more bundles rewrites them as one."""
MAX_PLACES = 1_000
"""Places that are read; places read before come first."""
MAX_PLACES_TOLD = 20
_CONVERSATION = "conversation"


class SyncReport(Value):
    """The result of a sync: received, sent and skipped changes."""

    remote: str
    replica: str
    received: MergeReport | None
    replicas: int
    """Other copies that have left something."""
    sent: int
    """Entries that were sent."""
    bytes: int
    """Bytes of the bundles that were sent."""
    conversations: int = 0
    """Conversations among them, such as sessions of coding agents, with all of their messages."""
    withheld_conversations: int = 0
    """New or continued conversations with coding agents that were not sent."""
    waiting: tuple[str, ...] = ()
    """Patches that wait for review here: they are not sent."""
    passed_over: tuple[str, ...] = ()
    """Copies whose bundles could not be read or merged completely; `warnings` contain the reasons."""
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class SyncWishes:
    """Options of a sync: directions, the key to sign with, and the accepted signers."""

    fetch: bool = True
    push: bool = True
    key: Path | None = None
    signers: Path | None = None
    erasing: Erasing = erase_only
    progress: Progress = silent


@dataclass(slots=True)
class _Arrived:
    """The entries read from a place, in order, up to the first bundle that cannot be read."""

    name: str
    manifest: BundleManifest
    entries: list[MergeEntry] = field(default_factory=list)
    bundles: list[str] = field(default_factory=list)
    """SHA-256 of the bundles that could be read."""
    is_deferred: bool = False
    """Whether the rest is left for the next sync, because this one has read as much as it may."""


def sync(ledger: Ledger, home: Path, remote: str, *, by: Author, folder: Path, wishes: SyncWishes) -> SyncReport:
    """Merge the bundles of others at a remote, and write those they do not have.

    `home`: the folder with the state of the syncs (`home_of_syncs`). `folder`: the repository whose remotes have names.
    Raises `Denied` before anything is sent if it contains a secret. Raises `Unavailable` without the remote.
    """
    if wishes.signers:
        _check_signers(wishes.signers)
    make_own_folder(home)
    with held_alone(home / "lock", wait=True):
        state = read_state(home, log_name(ledger))
        if state.head and head_of(ledger, state.head.seq) != state.head:
            state.read = {}  # the space was restored or created again, and lacks what it read since
        depot = depot_at(remote, home / "git", folder=folder, kinds=state.kinds)
        write_state(home, state, log_name(ledger))  # the kind of the remote counts from now on, however this sync ends
        report = _sync(ledger, depot, state, by=by, wishes=wishes)
        state.head = head_of(ledger, ledger.sequence())
        write_state(home, state, log_name(ledger))
    return report.model_copy(update={"warnings": (*warnings_of(depot), *report.warnings)})


def _check_signers(signers: Path) -> None:
    if not signers.is_file():
        raise InvalidInput(
            f"The file of allowed signers {signers} does not exist.", hint="Give an allowed_signers file of SSH."
        )
    if not shutil.which("ssh-keygen"):
        raise Unavailable("ssh-keygen is not installed, so signatures cannot be checked.", hint="Install OpenSSH.")


def _sync(ledger: Ledger, depot: Depot, state: SyncState, *, by: Author, wishes: SyncWishes) -> SyncReport:
    there, warnings = depot.places(), list[str]()
    left = _left_here(ledger, depot, state, there, warnings)
    received: MergeReport | None = None
    others = [name for name in there if name != state.replica]
    reasons: dict[str, str] = {}
    if wishes.fetch:
        received = _fetch(ledger, depot, others, state, reasons, by=by, wishes=wishes)
        warnings += _reason_lines(reasons, len(others) - MAX_PLACES)
        warnings += received.warnings if received else ()
    sent, size = list[MergeEntry](), 0
    outgoing = Outgoing(ledger, sessions=True)
    try:
        if wishes.push:
            anew = left is None and state.replica in there
            sent, size = _push(ledger, depot, state, left, wishes, outgoing, anew=anew)
            warnings += _of_earlier_conversations(outgoing, left)
    finally:
        if received and (received.erased or received.withheld):
            # Erased content may be in fetched objects: remove them, and read them again next time.
            depot.forget()
            state.read.pop(depot.name, None)
    return SyncReport(
        remote=depot.name,
        replica=state.replica,
        received=received,
        replicas=len(others),
        sent=len(sent),
        bytes=size,
        conversations=len(
            {
                one.target
                for one in sent
                if isinstance(one.after, Source) and one.after.kind == _CONVERSATION and one.kind != WITHHELD
            }
        ),
        withheld_conversations=len(outgoing.conversations),
        waiting=waiting_patches(ledger) if wishes.push else (),
        passed_over=tuple(sorted(reasons)),
        warnings=tuple(warnings),
    )


def _fetch(
    ledger: Ledger,
    depot: Depot,
    others: Sequence[str],
    state: SyncState,
    reasons: dict[str, str],
    *,
    by: Author,
    wishes: SyncWishes,
) -> MergeReport | None:
    """Read and merge the places of others. Places that cannot be read or merged are skipped and added to `reasons`."""
    known = state.known.get(depot.name, [])
    manifests = _manifests(depot, _in_order(others, known), reasons, wishes.signers)
    read = set(state.read.get(depot.name, ()))
    arrived, budget = list[_Arrived](), ReadBudget()
    new = sum(note.sha256 not in read for one in manifests.values() for note in one.bundles)
    numbers = count(1)
    if new:
        wishes.progress(f"Reading from {depot.name}", 0, new)
    for name, manifest in manifests.items():
        place = _Arrived(name, manifest)
        arrived.append(place)
        try:
            for note in manifest.bundles:
                if note.sha256 not in read:
                    data = depot.read(name, [note.name]).get(note.name, b"")
                    place.entries += unpacked(data, note, budget)
                    place.bundles.append(note.sha256)
                    wishes.progress(f"Reading from {depot.name}", next(numbers), new)
        except (Corrupt, InvalidInput, Unavailable) as error:
            reasons[name] = error.message
            place.is_deferred = budget.left < 0
    deferred = {place.name for place in arrived if place.is_deferred}
    author = by.model_copy(update={"tool": f"{TOOL} {depot.name}"[:200]})
    merge = partial(receive, ledger, by=author, reason=f"Synced with {depot.name}", erasing=wishes.erasing)
    if changes := sum(len(place.entries) for place in arrived):
        wishes.progress("Merging changes", 0, changes)
    report = _merge(merge, arrived, reasons)
    # Links to objects of a place that was passed over were left out: once it is read, all is read again next time.
    is_mended = any(name not in reasons for name in state.passed_over.get(depot.name, ()) if name in manifests)
    state.read[depot.name] = [] if is_mended else sorted(read.union(*(place.bundles for place in arrived)))
    there = set(others)
    met = dict.fromkeys([*known, *(place.name for place in arrived)])
    state.known[depot.name] = [name for name in met if name in there]
    state.passed_over[depot.name] = sorted(reasons.keys() - deferred)
    return report


def _in_order(others: Sequence[str], known: Sequence[str]) -> list[str]:
    """Return the places to read, known ones first, so that new places cannot crowd them out."""
    there, before = set(others), set(known)
    return [*(name for name in known if name in there), *(name for name in others if name not in before)][:MAX_PLACES]


def _manifests(
    depot: Depot, names: Sequence[str], reasons: dict[str, str], signers: Path | None
) -> dict[str, BundleManifest]:
    together = depot.manifests(names)
    manifests: dict[str, BundleManifest] = {}
    for name in names:
        try:
            files = {MANIFEST: together[name]} if name in together else depot.read(name, [MANIFEST])
            manifests[name] = read_manifest(files, name, signers)
        except (Corrupt, Denied, InvalidInput, Unavailable) as error:
            reasons[name] = error.message
    return manifests


def _merge(
    merge: Callable[[list[MergeEntry], tuple[Parent, ...]], MergeReport],
    arrived: list[_Arrived],
    reasons: dict[str, str],
) -> MergeReport | None:
    """Merge the received entries in one transaction. A place with an invalid entry is removed from `arrived`."""
    while any(place.bundles for place in arrived):
        owners = [place for place in arrived for _ in place.entries]
        coming = [entry for place in arrived for entry in place.entries]
        parents = tuple(Parent(place.manifest.log, place.manifest.head) for place in arrived if place.bundles)
        try:
            return merge(coming, parents)
        except InvalidInput as error:
            malformed: dict[int, str] = error.details.get("malformed", {})
            if not malformed:
                raise
            for at, message in malformed.items():
                reasons.setdefault(owners[at].name, message)
            wrong = {owners[at].name for at in malformed}
            arrived[:] = [place for place in arrived if place.name not in wrong]
    return None


def _reason_lines(reasons: dict[str, str], more: int) -> Iterator[str]:
    for name, why in list(reasons.items())[:MAX_PLACES_TOLD]:
        yield f"Skipped the changes of {name}: {why}"
    if len(reasons) > MAX_PLACES_TOLD:
        yield f"Skipped {len(reasons) - MAX_PLACES_TOLD} more copies."
    if more > 0:
        yield f"Skipped {more} copies: one sync reads at most {MAX_PLACES}."


def _left_here(
    ledger: Ledger, depot: Depot, state: SyncState, there: Iterable[str], warnings: list[str]
) -> LeftAtRemote | None:
    """Return the record of this copy's bundles if the remote still has all of them; else `None`: send all again.

    The manifest at the remote is never trusted. If another copy uses the same name, this copy takes a new one.
    """
    left = state.left.get(depot.name)
    if left and head_of(ledger, left.head.seq) != left.head:
        left = None
    files = _files_here(depot, state.replica, left) if state.replica in there else {}
    if left and _is_whole(left, files):
        return left
    if _is_of_another(ledger, files, state.replica):
        state.take_new_name()
    elif left:
        warnings.append(
            f"The changes stored by this copy at {depot.name} were modified or lost there; sending all of them again."
        )
    return None


def _files_here(depot: Depot, replica: str, left: LeftAtRemote | None) -> Mapping[str, bytes]:
    try:
        return depot.read(replica, [MANIFEST, *(note.name for note in (left.bundles if left else ()))])
    except (Corrupt, Unavailable):
        return {}  # it is rewritten


def _is_of_another(ledger: Ledger, files: Mapping[str, bytes], replica: str) -> bool:
    """Return whether a manifest is of another log than this space's, or of a diverged copy."""
    try:
        manifest = read_manifest(files, replica, None)
    except (Corrupt, InvalidInput):
        return False
    return manifest.log != log_name(ledger) or head_of(ledger, manifest.head.seq) != manifest.head


def _is_whole(left: LeftAtRemote, files: Mapping[str, bytes]) -> bool:
    wanted = {MANIFEST: left.manifest, **{note.name: note.sha256 for note in left.bundles}}
    return all(hashlib.sha256(files.get(name, b"")).hexdigest() == sha256 for name, sha256 in wanted.items())


def _push(
    ledger: Ledger,
    depot: Depot,
    state: SyncState,
    left: LeftAtRemote | None,
    wishes: SyncWishes,
    outgoing: Outgoing,
    *,
    anew: bool,
) -> tuple[list[MergeEntry], int]:
    """Send the entries that the remote does not have; return them, and the bytes of their bundles."""
    notes, after = (list(left.bundles), left.head.seq) if left else ([], 0)
    since = list(ledger.events(after=after))
    changed = any(event.event_type in (ERASED, POLICY_CHANGED) for event in since)
    if anew := anew or changed or len(notes) >= MAX_OWN_BUNDLES:
        notes, after = [], 0
    own = entries(ledger, after=after, without=_brought(ledger, depot, after), outgoing=outgoing)
    leaving = list(linked_by_id(own))
    if not leaving and not anew:
        if left:
            state.left[depot.name] = left.model_copy(update={"withholds": True})
        return [], 0
    _check_secrets(leaving)
    head = head_of(ledger, ledger.sequence()) if not since else Anchor(seq=since[-1].seq, hash=since[-1].hash)
    files: Files = {}
    if leaving:
        data = packed(leaving)
        sha256 = hashlib.sha256(data).hexdigest()
        note = BundleNote(name=f"{sha256[:32]}.bundle", sha256=sha256, last=head.seq, entries=len(leaving))
        notes, files[note.name] = [*notes, note], data
    version = VERSION_WITH_NOTICES if any(one.kind == WITHHELD for one in leaving) else VERSION
    version = max(version, left.version) if left and after else version
    manifest = BundleManifest(
        format=FORMAT,
        version=version,
        replica=state.replica,
        log=log_name(ledger),
        head=head,
        bundles=tuple(notes),
    )
    files[MANIFEST] = written(manifest, wishes.key)
    depot.send(state.replica, files, keep=[note.name for note in notes if note.name not in files])
    state.left[depot.name] = LeftAtRemote(
        head=head,
        bundles=manifest.bundles,
        manifest=hashlib.sha256(files[MANIFEST]).hexdigest(),
        version=version,
        withholds=True,
    )
    if anew:
        depot.forget()
    return leaving, sum(map(len, files.values()))


def _of_earlier_conversations(outgoing: Outgoing, left: LeftAtRemote | None) -> Iterator[str]:
    """Report once what happens to the conversations that an earlier version of Treering sent to a remote."""
    count = outgoing.count_until(left.head.seq) if left and not left.withholds else 0
    if count:
        yield (
            f"Conversations with coding agents are no longer sent. {counted_things(count, 'conversation')} sent before "
            "stay with everyone who received them, without new messages. To send conversations again, add "
            'shared_scopes = ["/discussion"] to the policy file.'
        )


def _brought(ledger: Ledger, depot: Depot, after: int) -> frozenset[str]:
    """Return the patches that merged entries from this remote."""
    tool = f"{TOOL} {depot.name}"[:200]
    merges = {event.patch_id for event in ledger.events(after=after) if event.merged and "event" in event.merged}
    return frozenset(one for one in merges if ledger.patch(one).source.tool == tool)


def _check_secrets(leaving: Iterable[MergeEntry]) -> None:
    secrets: dict[str, list[str]] = {}
    for entry in leaving:
        parts = (entry.after, entry.reason, entry.before if not isinstance(entry.before, str) else None)
        for secret in (secret for part in parts if part for secret in screened(part).secrets):
            secrets.setdefault(entry.target, []).append(secret.kind)
    if secrets:
        shown = ", ".join(f"{target} ({', '.join(sorted(set(kinds)))})" for target, kinds in secrets.items())
        raise Denied(
            f"{len(secrets)} objects may contain secrets, so nothing was sent: {shown}.",
            hint="Erase them (`treering erase`), or add their scope to private_scopes in the policy file.",
            details={"ids": list(secrets)},
        )
