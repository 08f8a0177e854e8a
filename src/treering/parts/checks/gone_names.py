"""What a text names that a change takes away: files and definitions."""

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import PurePosixPath
from posixpath import normpath

from treering.core.characters import named
from treering.parts.checks.change import BranchChange
from treering.sources.reading.text import is_markdown

DOCUMENTS = (".md", ".markdown", ".mdx", ".rst", ".adoc", ".txt", ".mdc")
HISTORY = re.compile(r"(?:^|/)(?:change|news|history|release)[^/]*(?:/[^/]*)?$", re.IGNORECASE)
"""Documents that tell of what was: they may name what is gone."""
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
    found: dict[str, list[str]] = defaultdict(list)
    for path in paths:
        found[PurePosixPath(path).name].append(path)
    return found


def mentions(
    path: str,
    text: str,
    places: Mapping[str, Sequence[str]],
    lasting: Iterable[str],
    gone: Mapping[str, str],
    names: Mapping[str, str],
) -> Iterator[tuple[str, int, str]]:
    """Yield what is gone that a text names: what, at which line of the text, and how to say it."""
    told: set[str] = set()
    for number, line in enumerate(text.splitlines(), start=1):
        for token in NAMED_PATH.findall(line) if places else ():
            what = _gone_path(path, token, places, lasting)
            if what and what not in told:
                told.add(what)
                now = f"moves to {named(gone[what])}" if gone[what] else "deletes"
                yield what, number, f"It names {named(token)}, which the change {now}."
        for code in NAMED_CODE.findall(line) if names else ():
            for word in _IDENTIFIER.findall(code):
                if word in names and word not in told:
                    told.add(word)
                    yield word, number, f"It names {named(word)}, which the change removes from {named(names[word])}."


def _gone_path(path: str, token: str, places: Mapping[str, Sequence[str]], lasting: Iterable[str]) -> str:
    """Return which of the paths that are gone a document means; empty where it means none."""
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
    """Return the names of definitions that the change takes away, each with the file it was in.

    Words such as `run` are said of much else: a name counts that no word of a language is.
    """
    code = [one for one in change.files if one.old and not is_markdown(one.change.before)]
    change.read(blob for one in code for blob in (one.old, one.new) if blob)
    removed: dict[str, str] = {}
    added: set[str] = set()
    for one in code:
        old, new = (change.text(one.old) or "").split("\n"), (change.text(one.new) or "").split("\n") if one.new else []
        for hunk in one.lines:
            for line in old[hunk.old_first - 1 : hunk.old_first - 1 + hunk.old_count] if hunk.old_count else ():
                if (found := _DEFINITION.match(line)) and _is_no_word(found[1]):
                    removed.setdefault(found[1], one.change.path)
            lines = new[hunk.new_first - 1 : hunk.new_first - 1 + hunk.new_count] if hunk.new_count else ()
            added.update(found[1] for line in lines if (found := _DEFINITION.match(line)))
    kept = [name for name in removed if name not in added]
    return {name: removed[name] for name in kept[:_MOST_NAMES]}


def _is_no_word(name: str) -> bool:
    return "_" in name.strip("_") or not (name.islower() or name.istitle())


def still_there(change: BranchChange, names: Sequence[str]) -> set[str]:
    """Return those of the names that other files still say: they may be defined there as well."""
    if not names:
        return set()
    documents = tuple(DOCUMENTS)
    code = {path: blob for path, blob in change.after.items() if PurePosixPath(path).suffix.lower() not in documents}
    change.read(code.values())
    found: set[str] = set()
    for blob in code.values():
        text = change.text(blob) or ""
        found.update(name for name in names if name in text and re.search(rf"(?<!\w){name}(?!\w)", text))
    return found
