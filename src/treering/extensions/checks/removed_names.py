"""Find the removed files and definitions that a text mentions."""

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import PurePosixPath
from posixpath import normpath

from treering.core.characters import named
from treering.extensions.checks.change import BranchChange
from treering.ports.format import is_prose_file
from treering.sources.reading.text import is_markdown

HISTORY = re.compile(r"(?:^|/)(?:change|news|history|release)[^/]*(?:/[^/]*)?$", re.IGNORECASE)
"""Documents about the past, which may mention deleted files."""
NAMED_PATH = re.compile(r"(?<![\w@:/.-])(?:\.{0,2}/)?[\w.@+-]+(?:/[\w.@+-]+)*\.\w{1,12}(?![\w/])")
NAMED_CODE = re.compile(r"`([^`\n]{3,120})`")
_IDENTIFIER = re.compile(r"[A-Za-z_]\w{2,}")
_DEFINITION = re.compile(
    r"^\s*(?:(?:export|default|public|private|protected|internal|static|final|abstract|async|pub(?:\([^)]*\))?|unsafe)"
    r"\s+)*(?:def|class|func|fn|function|interface|struct|enum|trait|type)\s+(?:\([^)]*\)\s*)?(\w{3,})"
)
_MOST_NAMES = 200


def by_name(paths: Iterable[str]) -> Mapping[str, Sequence[str]]:
    """Return paths by the names of their files."""
    paths_by_name: dict[str, list[str]] = defaultdict(list)
    for path in paths:
        paths_by_name[PurePosixPath(path).name].append(path)
    return paths_by_name


def mentions(
    path: str,
    text: str,
    places: Mapping[str, Sequence[str]],
    lasting: Iterable[str],
    gone: Mapping[str, str],
    names: Mapping[str, str],
) -> Iterator[tuple[str, int, str]]:
    """Yield the removed files and definitions that a text mentions: the name, the line, and the message."""
    reported: set[str] = set()
    for number, line in enumerate(text.splitlines(), start=1):
        for token in NAMED_PATH.findall(line) if places else ():
            what = _gone_path(path, token, places, lasting)
            if what and what not in reported:
                reported.add(what)
                now = f"moves to {named(gone[what])}" if gone[what] else "deletes"
                yield what, number, f"It mentions {named(token)}, which the change {now}."
        for code in NAMED_CODE.findall(line) if names else ():
            for word in _IDENTIFIER.findall(code):
                if word in names and word not in reported:
                    reported.add(word)
                    yield (
                        word,
                        number,
                        f"It mentions {named(word)}, which the change removes from {named(names[word])}.",
                    )


def _gone_path(path: str, token: str, places: Mapping[str, Sequence[str]], lasting: Iterable[str]) -> str:
    """Return the removed path that a document refers to, or ""."""
    name = PurePosixPath(token).name
    if name not in places:
        return ""
    plain = token.removeprefix("./").removeprefix("/")
    beside = normpath(f"{PurePosixPath(path).parent}/{token}") if path else plain
    for one in places[name]:
        if one in (beside, plain) or ("/" in plain and one.endswith(f"/{plain}")):
            return one
    only = len(places[name]) == 1 and "/" not in plain and name not in lasting
    return places[name][0] if only else ""


def removed_names(change: BranchChange) -> Mapping[str, str]:
    """Return the names of removed definitions with their files, except ordinary words such as `run`."""
    code = [one for one in change.files if one.old and not is_markdown(one.change.before)]
    change.read(blob for one in code for blob in (one.old, one.new) if blob)
    removed: dict[str, str] = {}
    added: set[str] = set()
    for one in code:
        old, new = (change.text(one.old) or "").split("\n"), (change.text(one.new) or "").split("\n") if one.new else []
        for hunk in one.lines:
            for line in old[hunk.old_first - 1 : hunk.old_first - 1 + hunk.old_count] if hunk.old_count else ():
                if (definition := _DEFINITION.match(line)) and _is_no_word(definition[1]):
                    removed.setdefault(definition[1], one.change.path)
            lines = new[hunk.new_first - 1 : hunk.new_first - 1 + hunk.new_count] if hunk.new_count else ()
            added.update(definition[1] for line in lines if (definition := _DEFINITION.match(line)))
    gone = [name for name in removed if name not in added]
    return {name: removed[name] for name in gone[:_MOST_NAMES]}


def _is_no_word(name: str) -> bool:
    return "_" in name.strip("_") or not (name.islower() or name.istitle())


def still_there(change: BranchChange, names: Sequence[str]) -> set[str]:
    """Return the names that other files still contain, where they may also be defined."""
    if not names:
        return set()
    code = {path: blob for path, blob in change.after.items() if not is_prose_file(path)}
    change.read(code.values())
    present: set[str] = set()
    for blob in code.values():
        text = change.text(blob) or ""
        present.update(name for name in names if name in text and re.search(rf"(?<!\w){name}(?!\w)", text))
    return present
