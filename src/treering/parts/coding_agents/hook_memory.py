"""What hooks tell in the middle of a session: a table kept ready beside the space, and what of it speaks of something.

A hook has no time to open a space, nor to load all that analyses text: what is believed lies in one file, with the
paths it governs, and is matched by the stems of its words. What is told was not changed since, which is asked of the
space itself.
"""

import json
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
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any

from treering.core.errors import TreeringError
from treering.core.fencing import fence
from treering.retrieval.text.languages import language_of, stem_in, stems_in
from treering.stores.sqlite.files import digest_of_text, note_session, noted_answers, ready_folder, standing
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
    """Return what is kept ready for hooks; `None` where nothing is, or it cannot be read."""
    with suppress(OSError, ValueError, TypeError, KeyError):
        file = ready_folder(space) / _TABLE
        if file.stat().st_size <= _MOST_BYTES:
            told = json.loads(file.read_bytes())
            if told["version"] == _VERSION:
                entries = tuple(
                    HookEntry(identity, revision, text, tuple(paths), scope, of_failure, tuple(branches))
                    for identity, revision, text, paths, scope, of_failure, branches in told["entries"]
                )
                return HookTable(told["head"], entries, told["together"], told["branches"])
    return None


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
    """What a session was told already, in a file beside the space."""

    def __init__(self, space: Path, session: str) -> None:
        name = sha256(session.encode("utf-8", "replace")).hexdigest()[:32]
        self._file = ready_folder(space) / f"{name}{_SHOWN}"
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
            with suppress(OSError), self._file.open("a", encoding="ascii") as file:
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


# What an agent opens or edits after an answer named it was used: noted by the hook, and recorded as feedback later.
# Which session got an answer is told by the client, which calls a hook after each call of our tools; where none was
# told of, the file and the hour have to do.


_USED = "used.jsonl"
_MOST_USED = 3
"""Marks of one edit: those of the last answers."""
_MOST_USED_BYTES = 50_000
_USED_SECONDS = 3600
"""So long after an answer, a file that it named counts as used when it is opened or edited."""


def note_asking(space: Path, session: str, given: Mapping[str, Any]) -> None:
    """Note that a session got the answers of a call that its client tells of. Raises `OSError`.

    The call is known by the name of its answer, or by what was asked.
    """
    told, asked = _answers_told(given), {digest_of_text(text) for text in _texts_asked(given)}
    own = digest_of_text(session)
    got = [
        one.answer
        for one in (noted_answers(space) if session and (told or asked) else ())
        if own not in one.sessions and (one.answer in told or not asked.isdisjoint(one.asked))
    ]
    if got:
        note_session(space, session, list(dict.fromkeys(got)))


def note_used(space: Path, session: str, paths: Sequence[str], top: Path) -> None:
    """Note which of the files last answers named, each once in a session. Raises `OSError`, `Unavailable`.

    An answer that sessions are known to have asked for counts in these, any other one in all.
    """
    if not session:
        return
    own = digest_of_text(session)
    recent = [
        one
        for one in noted_answers(space)
        if time.time() - one.at < _USED_SECONDS and (own in one.sessions or not (one.sessions or one.in_shell))
    ]
    recent.sort(key=lambda one: own not in one.sessions)
    named = [
        (one.answer, one.scope, place)
        for path in paths
        for one in recent
        if (place := one.files.get(path) or one.files.get(str(top / path)))
    ][:_MOST_USED]
    shown = ShownThings(space, session)
    marks = {f"used:{sha256(' '.join(one).encode()).hexdigest()[:16]}": one for one in named}
    new = {mark: one for mark, one in marks.items() if mark not in shown.ids}
    file = ready_folder(space) / _USED
    if not new or (file.exists() and file.stat().st_size > _MOST_USED_BYTES):
        return
    with file.open("ab") as used:
        used.write("".join(f"{json.dumps(one)}\n" for one in new.values()).encode())
    ids = {place.partition(" ")[0] for _, _, place in new.values()}
    if ids - standing(space, ids).revisions.keys():
        file.unlink(missing_ok=True)  # one was erased meanwhile
    shown.add(new)


def record_used(space: "Space") -> None:
    """Record as feedback of an agent what hooks noted as used. Where feedback is switched off, forget it."""
    if space.address.file is None:
        return
    file = ready_folder(space.address.file) / _USED
    taken = file.with_name(f"{_USED}.{os.getpid()}")
    try:
        file.replace(taken)
    except FileNotFoundError:
        return
    told: dict[tuple[str, str], dict[str, None]] = {}
    for line in taken.read_bytes().splitlines():
        with suppress(ValueError, TypeError):
            answer, scope, place = map(str, json.loads(line))
            told.setdefault((answer, scope), {})[place] = None
    taken.unlink()
    # Imported here: a hook has no time for it.
    from treering.verbs.feedback import is_on

    agent = space.with_actor("hooks", channel="agent")
    for (answer, scope), places in told.items():
        for place in places:
            with suppress(TreeringError):  # it is gone, or agents are reviewed here
                if is_on(agent.engine, scope):
                    agent.crystallize("feedback", scope, {"question": answer, "used": [place]})


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
    data = json.dumps({"version": _VERSION, "head": head, **told})
    folder = ready_folder(file, make=True)
    replace_file(folder / _TABLE, data.encode())
    # After it was written: erasing empties the folder, and what it did before is seen now.
    if standing(file).head != head:
        (folder / _TABLE).unlink(missing_ok=True)
    for old in (*folder.glob(f"*{_SHOWN}"), *folder.glob(f"{_USED}.*")):
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


# What a client says of the tool that it calls: which files, and how it failed.


_PATHS = ("file_path", "filePath", "absolute_path", "notebook_path", "target_file", "path")
_PATCHED = re.compile(r"^\*\*\* (?:Update|Add|Delete) File: (.+)$|^\*\*\* Move to: (.+)$", re.MULTILINE)
_ANSWER = re.compile(r"\bans:[\w=-]+")
_COMMAND = "treering"
_MOST_COMMAND = 4_000
_NO_WORD = frozenset("-|&;<>()")
_EXIT = re.compile(r"\bexit(?:ed)?(?: with)?(?: (?:code|status))?\"?\s*[:=]?\s*(\d{1,3})\b", re.IGNORECASE)
_FAILED_LINE = re.compile(r"error|exception|fail|assert|panic|traceback|^E  |fatal|denied|not found", re.IGNORECASE)
_ENDED_BADLY = re.compile(
    r"^Traceback \(most recent|^\W*(?:[\w.]+(?:Error|Exception)|error(?:\[\w+\])?|fatal|panic)\b *:|^FAILED\b"
    r"|^=+ .*\b\d+ (?:failed|errors?)\b|\bcommand not found$|^npm ERR!",
    re.MULTILINE,
)
"""Lines that a command writes which fails, and hardly any other."""
_MOST_OUTPUT = 20_000
_MOST_LINES = 40


def edited_paths(given: Mapping[str, Any], top: Path) -> list[str]:
    """Return the files that a tool is about, from the top of the repository; none that lie elsewhere."""
    said = _object(given.get("tool_input"))
    named = [value for key in _PATHS if isinstance(value := said.get(key), str)]
    patch = next((value for key in ("command", "input", "patch") if isinstance(value := said.get(key), str)), "")
    named += [first or second for first, second in _PATCHED.findall(patch)]
    found = []
    for name in named:
        place = os.path.relpath(os.path.realpath(Path(given.get("cwd") or top, name)), os.path.realpath(top))
        if not place.startswith(".."):
            found.append(PurePosixPath(Path(place)).as_posix())
    return list(dict.fromkeys(found))


def calls_us(given: Mapping[str, Any]) -> bool:
    """Tell whether a tool ran a command that may be ours."""
    return any(_COMMAND in text for text in _texts(_object(given.get("tool_input"))))


def _answers_told(given: Mapping[str, Any]) -> frozenset[str]:
    """Return the names of answers that a tool gave back."""
    answered = (given.get(key) for key in ("tool_response", "tool_output", "result_json"))
    return frozenset(name for one in answered for text in _texts(one) for name in _ANSWER.findall(text))


def _texts_asked(given: Mapping[str, Any]) -> Iterator[str]:
    """Give what a call of our tools may have asked; of a command, words up to the next option or pipe."""
    for text in _texts(_object(given.get("tool_input"))):
        yield text
        if _COMMAND in text and len(text) <= _MOST_COMMAND:
            with suppress(ValueError):
                words = [*_shell_words(text), "|"]
                ends = [at for at, word in enumerate(words) if word[:1] in _NO_WORD]
                starts = (at for at, word in enumerate(words) if word[:1] not in _NO_WORD)
                for start in starts:
                    yield " ".join(words[start : next(end for end in ends if end > start)])


def _shell_words(command: str) -> list[str]:
    # Imported here: few hooks are called after a command of ours.
    import shlex

    read = shlex.shlex(command, posix=True, punctuation_chars=True)
    read.whitespace_split, read.commenters = True, ""
    return list(read)


def failure_of(given: Mapping[str, Any]) -> str:
    """Return the lines by which a tool failed; empty where it did not."""
    output = given.get("tool_response", given.get("tool_output"))
    error = given.get("error") or given.get("error_message")
    answered = _object(output)
    text = "\n".join(_texts(output))[-_MOST_OUTPUT:]
    if not error:
        error = answered.get("error")
        code = next((answered[key] for key in ("exit_code", "exitCode", "returncode") if key in answered), None)
        exits = [int(one) for one in _EXIT.findall(f"{text[:2_000]}\n{text[-2_000:]}")]
        # Codex gives a hook the bare output of a command, and does not say how it ended.
        unsaid = isinstance(output, str) and not answered and not exits
        if not (
            error
            or code not in (None, 0, "0")
            or (code is None and any(exits))
            or (unsaid and _ENDED_BADLY.search(text))
        ):
            return ""
    lines = "\n".join([*_texts(error), text]).splitlines()
    telling = [one.strip()[:500] for one in lines if _FAILED_LINE.search(one)] or [one[:500] for one in lines[-5:]]
    return "\n".join(telling[-_MOST_LINES:])


def _object(value: Any) -> Mapping[str, Any]:
    if isinstance(value, str) and value.lstrip().startswith("{"):
        with suppress(ValueError):
            value = json.loads(value)
    return value if isinstance(value, dict) else {}


def _texts(value: Any) -> Iterator[str]:
    match value:
        case str() if value:
            yield value
        case dict():
            for one in value.values():
                yield from _texts(one)
        case list():
            for one in value:
                yield from _texts(one)
