"""Places at a remote of bundles that somebody with write access and no key forged."""

import copy
import json
import random
import resource
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import treering
from attacks.attack import Attack, Count
from attacks.forged_bundles import (
    EVIL,
    FOLDERS,
    PLACES,
    REFS,
    WORDS,
    bundle,
    entry,
    many_places,
    place,
    put,
    sealed,
)
from treering.core.errors import TreeringError
from treering.extensions.sharing.depots import MANIFEST
from treering.extensions.sharing.merging import entries
from treering.extensions.sharing.sync import SyncReport, SyncWishes
from treering.ports.ledger import Selection
from treering.surfaces.python.space import Space

HONEST = "Bob's note is honest."
_FUZZED = 150
_SECONDS = 30
_PLACES = 3_000
_GROWTH_KIB = 300 << 10
_ODD: Sequence[Any] = (
    *(None, True, -1, 0, 2**70, 1e308, 10**30, "", "\x00", "../../x", [], {}, [[]], {"a": {}}, "x" * 10_000),
    *("9999-12-31T23:59:59Z", "0001-01-01T00:00:00+14:00", f"src:{2:026d}", f"know:{2:026d}", "/", "erased", "linked"),
)


def _space(folder: Path, name: str) -> Space:
    return treering.open(f"sqlite:{folder / name}.db", channel="user", background=False)


def _sync(folder: Path, name: str, remote: Path, wishes: SyncWishes | None = None) -> SyncReport:
    with _space(folder, name) as space:
        return space.sync(str(remote), wishes)


def _note(folder: Path, name: str, words: str) -> None:
    with _space(folder, name) as space:
        space.ingest("source", input={"items": [{"text": words, "origin": f"{name}.md"}]})


def _words(folder: Path, name: str) -> str:
    with _space(folder, name) as space:
        space.engine.ledger.verify()
        found = space.engine.ledger.select(Selection(descend=True))
        return "".join(item.model_dump_json() for item in found)


def _remote(folder: Path, *, git: bool = False) -> Path:
    """Make a remote at which Bob left an honest note."""
    remote = folder / "remote"
    remote.mkdir()
    if git:
        subprocess.run(["git", "init", "--quiet", "--bare", str(remote)], check=True)
    _note(folder, "bob", HONEST)
    _sync(folder, "bob", remote)
    return remote


def _is_stopped(folder: Path, name: str, remote: Path) -> str:
    """Sync a new copy; return how it was kept from the honest note, or got the forged one."""
    began, before = time.monotonic(), _peak()
    try:
        _sync(folder, name, remote)
        words = _words(folder, name)
    except TreeringError as error:
        return f"stopped: {error.message[:80]}"
    except Exception as error:  # noqa: BLE001 - what is attacked may raise anything
        return f"untranslated {type(error).__name__}"
    if HONEST not in words:
        return "the honest note did not come"
    if WORDS in words:
        return "the forged note came"
    if time.monotonic() - began > _SECONDS or _peak() - before > _GROWTH_KIB:
        return "too slow or too large"
    return ""


def _peak() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


def _each(folder: Path, harms: Mapping[str, Callable[[Path], object]], *, git: bool) -> Count:
    wrong = list[str]()
    for number, (name, harm) in enumerate(harms.items()):
        own = folder / str(number)
        own.mkdir()
        remote = _remote(own, git=git)
        harm(remote)
        if problem := _is_stopped(own, "ada", remote):
            wrong.append(f"{name}: {problem}")
    return Count(len(harms), len(wrong), "; ".join(wrong))


def _forged(folder: Path) -> Count:
    """Leave each forged place beside an honest one."""
    return _each(
        folder, {name: lambda remote, made=made: put(remote, made()) for name, made in PLACES.items()}, git=False
    )


def _refs(folder: Path) -> Count:
    """Leave odd refs at a git remote."""
    return _each(folder, REFS, git=True)


def _files(folder: Path) -> Count:
    """Leave odd files in a shared folder."""
    return _each(folder, FOLDERS, git=False)


def _crowd(folder: Path) -> Count:
    """Crowd a remote with places; count syncs that take too long or miss a copy that was known before."""
    remote = _remote(folder, git=True)
    _sync(folder, "ada", remote)
    many_places(remote, _PLACES)
    _note(folder, "bob", f"{HONEST} Twice.")
    began = time.monotonic()
    _sync(folder, "bob", remote)
    _sync(folder, "ada", remote)
    took = time.monotonic() - began
    return Count(1, int(took > _SECONDS or "Twice" not in _words(folder, "ada")), f"two syncs took {took:.1f} s")


def _signature(folder: Path) -> Count:
    """Add a bundle to the manifest of somebody who signs; count forged notes that come to who checks signatures."""
    key, signers, remote = folder / "key", folder / "signers", folder / "remote"
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "ada@x", "-f", str(key)], check=True)
    signers.write_text(f"ada@x {key.with_name('key.pub').read_text()}", encoding="utf-8")
    remote.mkdir()
    reached = 0
    for number, forge in enumerate((_with_another_bundle, _with_only_another_bundle, _with_its_log_cut)):
        _note(folder, "ada", f"Ada's note {number}.")
        _sync(folder, "ada", remote, SyncWishes(fetch=False, key=key))
        (own,) = (one for one in remote.iterdir() if one.name != EVIL)
        forge(own)
        _note(folder, "ada", f"Ada's other note {number}.")
        _sync(folder, "ada", remote, SyncWishes(fetch=False, key=key))
        _sync(folder, f"bob{number}", remote, SyncWishes(push=False, signers=signers))
        reached += WORDS in _words(folder, f"bob{number}")
    return Count(3, reached)


def _with_another_bundle(own: Path) -> None:
    _rewrite(own, lambda body, note: {**body, "bundles": [*body["bundles"], note]})


def _with_only_another_bundle(own: Path) -> None:
    _rewrite(own, lambda body, note: {**body, "bundles": [note]})


def _with_its_log_cut(own: Path) -> None:
    genesis = {"seq": 0, "hash": "0" * 40}
    _rewrite(own, lambda body, note: {**body, "head": genesis, "bundles": [note]})


def _rewrite(own: Path, change: Callable[[dict[str, Any], dict[str, Any]], dict[str, Any]]) -> None:
    body = {key: part for key, part in json.loads((own / MANIFEST).read_bytes()).items() if key not in _SEALS}
    made = place(bundle([entry()]), 1)
    note = json.loads(made[MANIFEST])["bundles"][0]
    (own / note["name"]).write_bytes(made[note["name"]])
    (own / MANIFEST).write_bytes(sealed(change(body, note)))


_SEALS = ("digest", "signature")


def _fuzzed(folder: Path) -> Count:
    """Change one value of one honest change at random; count syncs that end in a traceback or a broken space."""
    remote, chance, wrong = _remote(folder), random.Random(7), set[str]()
    for number, made in enumerate(_changed(_varied(folder), chance)):
        copy_name = f"ada{number % 20}"  # what came before stays, so that later changes meet it
        put(remote, place(bundle(made), len(made)))
        problem = _is_stopped(folder, copy_name, remote)
        if problem and problem != "the forged note came":
            wrong.add(problem)
    return Count(_FUZZED, len(wrong), "; ".join(sorted(wrong)))


def _varied(folder: Path) -> list[dict[str, Any]]:
    """Return changes of every kind, as a space with a bit of everything leaves them."""
    with _space(folder, "varied") as space:
        items = [{"text": "# Kiln\n\nThe kiln burns gas.\n\n# Oven\n\nBread.", "origin": "kiln.md"}]
        report = space.ingest("source", input={"items": items})
        source = space.engine.ledger.get(report.items[0].source_id)
        quote = {"source_id": source.id, "segment_id": source.segments[0].segment_id}  # type: ignore[union-attr]
        fact = {"subject": "kiln", "predicate": "fuel", "value": "gas"}
        given = {"kind": "fact", "title": "Fuel", "payload": fact, "evidence_refs": [quote]}
        known = space.crystallize("knowledge", input=given).ids[-1]
        space.crystallize("work_item", input={"title": "Ask", "links": [{"type": "about", "target": known}]})
        other = space.ingest("source", input={"items": [{"text": "Gone.", "origin": "gone.md"}]})
        space.erase([other.items[0].source_id])
        return [json.loads(one.model_dump_json()) for one in entries(space.engine.ledger)]


def _changed(honest: list[dict[str, Any]], chance: random.Random) -> Iterator[list[dict[str, Any]]]:
    for _ in range(_FUZZED):
        made = copy.deepcopy(honest)
        place_of = chance.randrange(len(made))
        made[place_of] = _odd(made[place_of], chance)
        yield made


def _odd(value: Any, chance: random.Random) -> Any:
    if isinstance(value, dict) and value and chance.random() < 0.95:
        name = chance.choice(sorted(value))
        if chance.random() < 0.1:
            return {key: part for key, part in value.items() if key != name}
        return {**value, name: _odd(value[name], chance)}
    if isinstance(value, list) and value and chance.random() < 0.8:
        at = chance.randrange(len(value))
        return [*value[:at], _odd(value[at], chance), *value[at + 1 :]]
    return chance.choice(_ODD)


ATTACKS: Sequence[Attack] = (
    Attack("a forged bundle gets the signature of its victim", _signature),
    Attack("a forged place stops the sync of others, or comes", _forged),
    Attack("odd refs stop the sync of others", _refs),
    Attack("odd files in a shared folder stop the sync of others", _files),
    Attack("a crowd of places stops the sync of others", _crowd),
    Attack("a change at random ends in a traceback", _fuzzed),
)
