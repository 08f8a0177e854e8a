"""What hooks tell in the middle of a session: a table kept ready for the space, and what of it speaks of something.

A hook has no time to open a space, nor to load all that analyses text: what is believed lies in one file, with the
paths it governs, and is matched by the stems of its words. What is told was not changed since, which is asked of the
space itself.
"""

import os
import re
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase
from hashlib import sha256
from math import log2, sqrt
from pathlib import Path
from typing import TYPE_CHECKING, Any

from treering.core.fencing import fence
from treering.retrieval.text.languages import language_of, stem_in, stems_in
from treering.stores.sqlite.ready import read_ready, ready_folder, standing, write_ready
from treering.system.machine import replace_file

if TYPE_CHECKING:
    from treering.core.objects import Activity, Knowledge, Source
    from treering.surfaces.python.space import Space

EDIT_TOKENS, PROMPT_TOKENS, FAILURE_TOKENS = 300, 600, 300
"""The most that each hook tells. A token is counted as three bytes: of English four are usual."""

_BYTES_OF_TOKEN = 3
_FENCE_BYTES = 200  # of both marks, and of an id
_TABLE = "hooks.table"
_VERSION = 2
_MOST_ENTRIES = 2_000
_MOST_BYTES = 8_000_000
_MOST_TEXT = 400
_MOST_TOGETHER = 4
_MOST_SHOWN = 8
_FRESH_SECONDS = 30
_SHOWN = ".shown"
USED = "used.jsonl"
"""Where it is noted which answers were used (`tool_calls.note_used`)."""
_SHOWN_SECONDS = 2 * 86_400
_RELEVANT = 0.6  # as `retrieval.search.relevance.RELEVANT`, which a hook has no time to load
_LEAST_SHARED = 2
_FEW = 25
"""A word is rare that one of so many entries says: two such words at least have to be shared."""
_FAILURE = re.compile(
    r"\b(?:fail\w*|errors?|exception|crash\w*|broke\w*|panic\w*|timed? ?out|deadlock\w*)\b|Error\b", re.IGNORECASE
)
_WORD = re.compile(r"[^\W_][\w']{2,}", re.UNICODE)
_SIGN = re.compile(r"\b(?:[A-Za-z]+[A-Z][A-Za-z]*|\w+_\w+|[A-Z]+\d+|\w+(?:\.\w+)+)\b")
"""Names that no plain word is: `OperationalError`, `test_retries`, `E501`, `sqlite3.connect`."""
_COMMON = frozenset(
    "the and for are was were that this with from have has had not but you your can could will would should into our"
    " its it's all any what when where which who how why please let's make made use used using get got also then than"
    " them they there here about some only just more most very does did done now new one two file files code line"
    " lines add run".split()
)


@dataclass(frozen=True, slots=True)
class HookEntry:
    """Something believed, or learned from a failure, as a hook tells it."""

    id: str
    revision: int
    text: str
    paths: tuple[str, ...] = ()
    """Files that it rests on or names, from the top of the repository."""
    scope: str = ""
    """For which folders or files a rule is; empty where it is for all, which a session begins with."""
    of_failure: bool = False
    branches: tuple[str, ...] = ()
    """The branches that its lines stand on; empty where they stand on all, or nobody read lines for it."""


@dataclass(frozen=True, slots=True)
class HookTable:
    """What hooks may tell of a space, as of one event of its audit log."""

    head: int
    entries: tuple[HookEntry, ...] = ()
    together: Mapping[str, Sequence[tuple[str, int]]] = field(default_factory=dict)
    """By path, the files that changed with it, and in how many commits."""
    branches: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    """By the place of a repository, the branches that were read of it with their commits, the leading one first."""

    def on(self, place: str, branch: str, commit: str) -> "HookTable":
        """Return what holds on a branch of the repository at a place; of one that was not read, what its commit tells.

        Without any knowledge of it, that is what the leading branch holds.
        """
        known = self.branches.get(place)
        if not known:
            return self
        same = (name for name, read in known.items() if read == commit)
        held = branch if branch in known else next(same, next(iter(known)))
        return replace(self, entries=tuple(one for one in self.entries if not one.branches or held in one.branches))


def read_table(space: Path) -> HookTable | None:
    """Return what is kept ready for hooks; `None` where nothing is, or it cannot be read. Raises `OSError`."""
    told = read_ready(ready_folder(space) / _TABLE, max_bytes=_MOST_BYTES)
    if told is None or told["version"] != _VERSION:
        return None
    entries = tuple(
        HookEntry(identity, revision, text, tuple(paths), scope, of_failure, tuple(branches))
        for identity, revision, text, paths, scope, of_failure, branches in told["entries"]
    )
    return HookTable(told["head"], entries, told["together"], told["branches"])


def claim_renewal(space: Path, table: HookTable) -> bool:
    """Tell whether it is time to make the table anew, since the space was written; no other hook is told so then.

    Raises `Unavailable`.
    """
    with suppress(OSError):
        file = ready_folder(space) / _TABLE
        if time.time() - file.stat().st_mtime > _FRESH_SECONDS and standing(space, ()).head != table.head:
            os.utime(file)
            return True
    return False


def governing(table: HookTable, paths: Sequence[str]) -> list[HookEntry]:
    """Return what governs any of the files: what rests on it or names it first, then rules of its folders."""
    named = [one for one in table.entries if any(_is_named(path, one) for path in paths)]
    scoped = [one for one in table.entries if one not in named and any(_holds(one.scope, path) for path in paths)]
    return named + scoped


def changed_with(table: HookTable, paths: Sequence[str]) -> str:
    """Say which files usually change with these; empty where none do."""
    partners = Counter[str]()
    for path in paths:
        partners.update({other: count for other, count in table.together.get(path, ()) if other not in paths})
    told = ", ".join(f"{path} ({count} commits)" for path, count in partners.most_common(_MOST_TOGETHER))
    return f"Usually changes together with {told}." if told else ""


def speaking_of(table: HookTable, text: str) -> list[HookEntry]:
    """Return what truly speaks of a text, by how rare the words are that both have; the most relevant first."""
    language = language_of(text)
    words = _words(text, language)
    entries = [(one, _words(one.text, language)) for one in table.entries]
    counts = Counter(word for _, said in entries for word in said)
    # A word that nothing here says counts in full: the table holds what was decided, not all that a space knows.
    weights = {word: 1 / log2(2 + counts[word]) if counts[word] else 1.0 for word in words}
    total, few = sum(weights.values()), max(2, len(entries) // _FEW)
    found = []
    for one, said in entries:
        shared = words & said
        coverage = sqrt(len(weights)) * sum(weights[word] for word in shared) / total if total else 0.0
        rare = [word for word in shared if counts[word] <= few]
        if len(rare) >= _LEAST_SHARED and coverage >= _RELEVANT:
            found.append((coverage, one))
    return [one for _, one in sorted(found, key=lambda pair: (-pair[0], pair[1].id))]


def learned_of(table: HookTable, failure: str) -> list[HookEntry]:
    """Return what was learned from the same failure: it names what the failure names, and shares words besides."""
    signs, words = _signs(failure), _words(failure)
    found = []
    for one in table.entries:
        said = _words(one.text) if one.of_failure else frozenset()
        own = _signs(one.text) & signs if said else frozenset()
        shared = said & words
        if (own and len(shared) >= _LEAST_SHARED) or len(shared) >= max(4, len(said) / 2):
            found.append((len(own), len(shared), one))
    return [one for *_, one in sorted(found, key=lambda three: (-three[0], -three[1], three[2].id))]


def told(space: Path, session: str, entries: Sequence[HookEntry], more: str = "", *, tokens: int) -> str:
    """Write what a hook tells, fenced as data; empty where nothing is new.

    Each thing is told once in a session, and only while it is as it was when the table was made. Raises `Unavailable`.
    """
    shown = ShownThings(space, session)
    new = [one for one in entries if one.id not in shown.ids]
    now = standing(space, [one.id for one in new[: 4 * _MOST_SHOWN]]).revisions if new else {}
    most = tokens * _BYTES_OF_TOKEN - _FENCE_BYTES
    lines = [f"- {_cut(one.text, most)} ({one.id})" for one in new if now.get(one.id) == one.revision][:_MOST_SHOWN]
    told_more = more if more and sha256(more.encode()).hexdigest()[:16] not in shown.ids else ""
    kept = [*lines, *([told_more] if told_more else [])]
    while kept and len(fence("\n".join(kept), origin="treering").encode()) > tokens * _BYTES_OF_TOKEN:
        kept.pop()
    if not kept:
        return ""
    ids = [one.id for one in new if any(line.endswith(f"({one.id})") for line in kept)]
    shown.add([*ids, *([sha256(more.encode()).hexdigest()[:16]] if told_more in kept and told_more else [])])
    return fence("\n".join(kept), origin="treering")


def _cut(text: str, most: int) -> str:
    data = text.encode()
    return text if len(data) <= most else f"{data[:most].decode('utf-8', 'ignore')}…"


class ShownThings:
    """What a session was told already, in a file of the ready folder."""

    def __init__(self, space: Path, session: str) -> None:
        name = sha256(session.encode("utf-8", "replace")).hexdigest()[:32]
        self._file = ready_folder(space) / f"{name}{_SHOWN}"
        self._space = space
        self._session = session
        self.ids: set[str] = set()
        with suppress(OSError, ValueError):
            self.ids = set(self._file.read_text(encoding="ascii").split())

    def begin(self, ids: Iterable[str]) -> None:
        """Forget what was told before, and write down that these are told."""
        if self._session:
            with suppress(OSError):
                replace_file(self._file, "".join(f"{one}\n" for one in ids).encode())

    def add(self, ids: Iterable[str]) -> None:
        """Write down that these are told."""
        if self._session:
            with suppress(OSError):
                ready_folder(self._space, make=True)
                with self._file.open("a", encoding="ascii") as file:
                    file.write("".join(f"{one}\n" for one in ids))


def _is_named(path: str, entry: HookEntry) -> bool:
    return any(path == one or ("/" in one and path.endswith(f"/{one}")) for one in entry.paths)


def _holds(scope: str, path: str) -> bool:
    if "*" in scope:
        globs = [one.strip().replace("**/", "*") for one in scope.split(",")]
        return any(fnmatchcase(path, one) for one in globs if one)
    return bool(scope) and path.startswith(f"{scope.strip('/')}/")


def _signs(text: str) -> frozenset[str]:
    """Return the names in a text that no plain word is; of one with dots, also what stands last if it is such a name.

    So `sqlite3.OperationalError` and `OperationalError` are the same failure, and two files `….py` are not.
    """
    names = _SIGN.findall(text)
    names += [last for name in names if "." in name and _SIGN.fullmatch(last := name.rpartition(".")[2])]
    return frozenset(name.lower() for name in names)


def _words(text: str, language: str | None = None) -> frozenset[str]:
    """Return the stems of the telling words of a text, of English where no other language is asked for."""
    if language:
        return frozenset(stems_in(language, text))
    found = (one.lower().strip("'_") for name in _WORD.findall(text) for one in {name, *name.split("_")})
    return frozenset(stem_in("english", one) for one in found if len(one) > 2 and one not in _COMMON)


# Making the table: in a process of its own, with the space open.


def keep_table(space: "Space") -> None:
    """Keep ready what hooks tell of a space. Raises `OSError`, `TreeringError`."""
    file = space.address.file
    if file is None:
        return
    known, head = read_table(file), standing(file).head
    if known and known.head == head:
        return
    maps = list(_maps(space))
    table = HookTable(head, tuple(_entries(space)), _together(maps), _read_branches(maps))
    rows = [
        [one.id, one.revision, one.text, one.paths, one.scope, one.of_failure, one.branches] for one in table.entries
    ]
    told = {"entries": rows, "together": table.together, "branches": table.branches}
    folder = ready_folder(file, make=True)
    write_ready(folder / _TABLE, {"version": _VERSION, "head": head, **told})
    # After it was written: erasing empties the folder, and what it did before is seen now.
    if standing(file).head != head:
        (folder / _TABLE).unlink(missing_ok=True)
    for old in (*folder.glob(f"*{_SHOWN}"), *folder.glob(f"{USED}.*")):
        with suppress(OSError):
            if time.time() - old.stat().st_mtime > _SHOWN_SECONDS:
                old.unlink()


def _entries(space: "Space") -> Iterator[HookEntry]:
    from treering.core.objects import Activity, Knowledge
    from treering.core.scope import ROOT
    from treering.ports.ledger import Altered, Selection
    from treering.verbs.trees import branches_of

    altered: Altered = {}
    select = space.engine.ledger.select
    found = select(Selection(scope=ROOT, descend=True, types=("knowledge", "activity")), altered=altered)
    told = [one for one in found if isinstance(one, Knowledge | Activity) and _is_told(one)][-_MOST_ENTRIES:]
    places = [
        (ref.source_id, ref.segment_id) for one in told if isinstance(one, Knowledge) for ref in one.evidence_refs
    ]
    segments = space.engine.ledger.segments(places, altered=altered)
    heads = space.engine.ledger.heads(dict.fromkeys(source for source, _ in places), altered=altered)
    for one in reversed(told):
        refs = one.evidence_refs if isinstance(one, Knowledge) else ()
        cited = (segments.get((ref.source_id, ref.segment_id)) for ref in refs)
        paths = dict.fromkeys(path for part in cited if part and (path := getattr(part.locator, "path", "")))
        branches = branches_of(one, heads, segments) if isinstance(one, Knowledge) else None
        yield replace(_entry(one, tuple(paths)), branches=branches or ())


def _is_told(one: "Knowledge | Activity") -> bool:
    """Tell whether hooks tell of something: what stands, and of candidates only decisions and rules of the files."""
    if one.type == "activity":
        return one.status == "finalized" and one.kind in ("debug", "implementation")
    if one.kind == "summary":
        return False
    from_files = one.origin_channel == "adapter" and one.kind in ("decision", "constraint")
    return one.status in ("active", "contested") or (one.status == "candidate" and from_files)


def _entry(one: "Knowledge | Activity", paths: tuple[str, ...]) -> HookEntry:
    from treering.core.characters import label
    from treering.core.objects import Constraint, title_of
    from treering.retrieval.index.passages import passages_of, told_once

    title = title_of(one)
    said = told_once(title, passages_of(one)[0].text)
    scope = one.payload.scope if one.type == "knowledge" and isinstance(one.payload, Constraint) else ""
    named = re.findall(r"(?<![\w@:/.-])[\w.@+-]+(?:/[\w.@+-]+)+\.\w{1,12}(?![\w/])", said)
    status = "" if one.status in ("active", "finalized") else f"{one.status} "
    whole = said if said.startswith(title) else f"{title}. {said}"
    return HookEntry(
        one.id,
        one.revision,
        f"{status}{one.kind}: {label(whole, most=_MOST_TEXT)}",
        (*paths, *named),
        "" if scope == "repository" else scope,
        one.type == "activity" or bool(_FAILURE.search(whole)),
    )


def _maps(space: "Space") -> "Iterator[Source]":
    """Give the maps of the repositories that were read."""
    from treering.core.scope import ROOT
    from treering.verbs.trees import repository_maps

    yield from repository_maps(space.engine.ledger, ROOT, descend=True, altered={})


def _read_branches(maps: "Iterable[Source]") -> Mapping[str, Mapping[str, str]]:
    from treering.core.versions import known_branches, places_of_branches

    found: dict[str, Mapping[str, str]] = {}
    for one in maps:
        known, leading = known_branches(one.payload), one.payload.get("leading")
        ordered = {name: known[name] for name in sorted(known, key=lambda name: name != leading)}
        found |= dict.fromkeys(places_of_branches(one.payload).values(), ordered)
    return found


def _together(maps: "Iterable[Source]") -> Mapping[str, Sequence[tuple[str, int]]]:
    found: dict[str, list[tuple[str, int]]] = {}
    for one in maps:
        known: Any = one.payload.get("changed_together", {})
        with suppress(KeyError, IndexError, TypeError, ValueError):
            for first, second, count, *_ in known["pairs"]:
                pair = known["paths"][first], known["paths"][second]
                found.setdefault(pair[0], []).append((pair[1], count))
                found.setdefault(pair[1], []).append((pair[0], count))
    return {path: sorted(others, key=lambda other: -other[1])[:_MOST_TOGETHER] for path, others in found.items()}
