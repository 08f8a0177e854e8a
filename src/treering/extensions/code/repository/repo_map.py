"""The map of a repository, drawn from its list of files and the texts of a few of them.

Pure functions on values. The adapter reads the files chosen by `key_files` and passes their texts.
"""

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import partial
from itertools import islice
from pathlib import PurePosixPath
from typing import Any

from treering.core.evidence import Section
from treering.extensions.code.manifests import MANIFESTS, read_manifest
from treering.extensions.code.parsing.languages import counted_language
from treering.extensions.code.repository.change_statistics import ChangedTogether, PathHistory
from treering.extensions.code.repository.contents import TreeEntry
from treering.extensions.code.repository.git_objects import CommitFiles
from treering.extensions.code.repository.project_card import card_files, draw_card
from treering.extensions.code.repository.project_layout import DOCS_NAMES, docs_folders
from treering.ports.adapter import NodeDraft, SegmentDraft, SourceDraft
from treering.ports.format import PROSE_SUFFIX
from treering.retrieval.index.code_names import HAS_HISTORY

_MODULES = 60
_DOCUMENTS = 40
_APIS = 40
_LISTED = 20
_MIN_FOLDER_SHARE = 0.02
"""Share of the code from which a folder is listed on the project card."""

# Folders that contain modules without being one.
_CONTAINERS = frozenset({"apps", "cmd", "crates", "internal", "lib", "libs", "packages", "pkg", "services", "src"})
# Folders whose second level is not about the code.
_ASIDE = frozenset({"benchmarks", "doc", "docs", "example", "examples", "test", "tests", "third_party", "vendor"})
_API = re.compile(r"(^|/)(openapi|swagger)[^/]*\.(json|ya?ml)$|\.proto$|\.graphqls?$", re.IGNORECASE)
_README = re.compile(rf"readme({PROSE_SUFFIX})?", re.IGNORECASE)
_LICENCE = re.compile(rf"(licen[cs]e|copying)({PROSE_SUFFIX})?", re.IGNORECASE)
_DOCUMENT = re.compile(
    rf"((readme|contributing|changelog|changes|architecture|security|governance|code_of_conduct)"
    rf"|(docs?|adr|rfcs)/(?!.+\.txt$)(.+/)?[^/]+){PROSE_SUFFIX}",
    re.IGNORECASE,
)
_MANIFESTS = ("pyproject.toml", "package.json", "Cargo.toml")
_ENTRY_POINT = re.compile(r"(.*/)?(__main__\.py|manage\.py|main\.(py|go|rs|c|cc|cpp)|Dockerfile)|Makefile|justfile")
_DOCSTRING = re.compile(r'\s*(?:#[^\n]*\n\s*)*[rR]?("""|\'\'\'|")(.*?)\1', re.DOTALL)
_RULE = re.compile(r"^[=~#*-]{3,}\s*$", re.MULTILINE)
_HEADING = re.compile(r"^(?:#{1,6}[ \t]+(\S.*)|(\S.*)\n[=~-]{3,}[ \t]*)$", re.MULTILINE)
_ABOUT = re.compile(r"^\W*(?:intro|about|overview|what|summary|description)", re.IGNORECASE)
"""Headings of a README that introduce a description of the project."""
_NOTICE = re.compile(r"\W*(?:news|note|notice|warning|attention|important|update|announcement)\b\W*:", re.IGNORECASE)
"""The beginning of a paragraph in a README that does not describe the project."""
_LICENCES = (
    ("Apache-2.0", r"apache license\s+version 2\.0"),
    ("AGPL-3.0", r"gnu affero general public license\s+version 3"),
    ("LGPL-3.0", r"gnu lesser general public license\s+version 3"),
    ("LGPL-2.1", r"gnu lesser general public license\s+version 2\.1"),
    ("GPL-3.0", r"gnu general public license\s+version 3"),
    ("GPL-2.0", r"gnu general public license\s+version 2"),
    ("MPL-2.0", r"mozilla public license,? version 2\.0"),
    ("Unlicense", r"free and unencumbered software released into the public domain"),
    ("ISC", r"permission to use, copy, modify, and(/or)? distribute this software for any purpose"),
    ("MIT", r"permission is hereby granted, free of charge, to any person obtaining a copy"),
    ("BSD-3-Clause", r"redistribution and use in source and binary forms[\s\S]+neither the name"),
    ("BSD-2-Clause", r"redistribution and use in source and binary forms"),
)


@dataclass(frozen=True, slots=True)
class RepoHistory:
    """The number of examined commits, and their statistics: files changed most often, and files changed together."""

    commits: int = 0
    hot_spots: Sequence[PathHistory] = ()
    together: Sequence[ChangedTogether] = ()
    latest: Sequence[CommitFiles] = ()
    """Newest first."""
    subjects: Sequence[CommitFiles] = ()
    """Commits whose subjects describe their files of code, newest first."""


@dataclass(frozen=True, slots=True)
class RepoFacts:
    """Facts from git about the repository. `origin` is its root origin, `commit` the commit described.

    `uncommitted` counts the files read from the work tree that differ from the commit.
    """

    origin: str
    name: str
    slug: str
    root_commit: str | None
    commit: str | None
    committed_at: datetime | None
    branch: str | None
    remote: str | None
    bare: bool
    shallow: bool
    uncommitted: int
    history: RepoHistory = RepoHistory()


@dataclass(frozen=True, slots=True)
class _Module:
    path: str
    parent: str | None
    files: int
    size: int
    language: str


@dataclass(slots=True)
class _Folder:
    """A folder of code during counting: its own files and all files below, by language in bytes."""

    own: int = 0
    files: int = 0
    languages: Counter[str] = field(default_factory=Counter)
    children: set[str] = field(default_factory=set)


def key_files(entries: Sequence[TreeEntry]) -> list[TreeEntry]:
    """Choose the few files whose text the map needs: README, license, manifests, package docstrings."""
    top = [entry for entry in entries if "/" not in entry.path]
    chosen = [entry for entry in (_first(top, _README), _first(top, _LICENCE)) if entry]
    packages = {f"{module.path}/__init__.py" for module in _modules(entries)}
    chosen += [entry for entry in entries if entry.path in packages and entry.size]
    return list(dict.fromkeys([*chosen, *card_files(entries)]))


def draw_map(
    facts: RepoFacts, entries: Sequence[TreeEntry], texts: Mapping[str, str], *, fingerprint: str
) -> SourceDraft:
    """Draw the repository's own source: payload, one readable segment, nodes.

    `entries` are its files (without links and submodules), `texts` the texts of `key_files` by path.
    """
    modules = _modules(entries)
    payload = _payload(facts, entries, texts, modules)
    text = "\n".join(_lines(facts, payload, _about(texts)))
    return SourceDraft(
        kind="repo",
        origin=facts.origin,
        title=facts.name,
        fingerprint=fingerprint,
        content_type="repo_map",
        segments=(SegmentDraft(Section(heading="Repository map"), text, heading=facts.name),),
        payload=payload,
        metadata={HAS_HISTORY: True} if facts.history.subjects else {},
        nodes=tuple(_nodes(facts, entries, texts, modules)),
    )


def guess_licence(text: str) -> str | None:
    """Return the SPDX name of a license by phrases that only it contains; `None` if unknown."""
    tagged = re.search(r"SPDX-License-Identifier:\s*(\S+)", text)
    if tagged:
        return tagged[1]
    flat = " ".join(text.lower().split())
    return next((name for name, phrase in _LICENCES if re.search(phrase, flat)), None)


def _payload(
    facts: RepoFacts, entries: Sequence[TreeEntry], texts: Mapping[str, str], modules: Sequence[_Module]
) -> dict[str, Any]:
    top = [entry for entry in entries if "/" not in entry.path]
    readme, licence = _first(top, _README), _first(top, _LICENCE)
    return {
        "slug": facts.slug,
        "root_commit": facts.root_commit,
        "commit": facts.commit,
        "committed_at": facts.committed_at and facts.committed_at.isoformat(),
        "branch": facts.branch,
        "remote": facts.remote,
        "bare": facts.bare,
        "shallow": facts.shallow,
        "uncommitted": facts.uncommitted,
        "files": len(entries),
        "bytes": sum(entry.size for entry in entries),
        "languages": _languages(entries),
        "layout": _layout(entries),
        "readme": readme and readme.path,
        "licence": licence and {"path": licence.path, "spdx": guess_licence(texts.get(licence.path, ""))},
        "entry_points": list(islice(_entry_points(entries, texts), _LISTED)),
        "hot_spots": [_hot_spot(one) for one in facts.history.hot_spots[:_LISTED]],
        "changed_together": _together(facts.history),
        "latest_commits": [_commit(one) for one in facts.history.latest[:_LISTED]],
        "commit_subjects": _subjects(facts.history.subjects),
        "modules": [module.path for module in modules],
        "documents": [entry.path for entry in document_entries(entries)],
        "apis": [entry.path for entry in api_entries(entries)],
        "card": draw_card(facts.name, partial(_described, texts), entries, texts, _code_folders(entries, texts)),
    }


def _described(texts: Mapping[str, str], name: str) -> str:
    """Return the docstring of the package with the project's name, else the first paragraph of the README."""
    package = name.lower().replace("-", "_")
    own = next(
        (text for path, text in texts.items() if path in (f"{package}/__init__.py", f"src/{package}/__init__.py")), ""
    )
    return _docstring(own) or _about(texts)


def _code_folders(entries: Sequence[TreeEntry], texts: Mapping[str, str]) -> dict[str, list[str]]:
    """Return the folders of code, each with the modules in it, the largest first.

    These are the modules of the first level. Several in a folder with no other content count as one folder.
    """
    docs = docs_folders(entries)
    modules = _all_modules(entries)
    own = (one for one in modules if f"{one.path}/" not in docs and (one.path in DOCS_NAMES or not _is_aside(one.path)))
    largest = sorted(own, key=lambda module: -module.size)
    total = sum(module.size for module in modules if module.parent is None)
    packages = tuple(f"{place[0]}/" for path in texts if (place := path.rpartition("/"))[0] and place[2] in MANIFESTS)
    first = [module for module in largest if module.parent is None]
    siblings = Counter(_container(module.path) for module in first)
    folders: dict[str, list[str]] = {}
    for module in first:
        container = _container(module.path)
        if container and siblings[container] > 1:
            folders.setdefault(container, []).append("/".join(module.path.split("/")[:2]))
        elif module.size >= _MIN_FOLDER_SHARE * total or f"{module.path}/".startswith(packages):
            folders[module.path] = [child.path for child in largest if child.parent == module.path]
    return folders


def _container(path: str) -> str:
    """Return the top-level folder of a path if it is a container of modules; else empty."""
    top, _, below = path.partition("/")
    return top if below and top in _CONTAINERS else ""


def _is_aside(path: str) -> bool:
    return path.startswith(".") or path.rpartition("/")[2].lower() in _ASIDE


def _languages(entries: Sequence[TreeEntry]) -> list[dict[str, Any]]:
    languages = ((counted_language(entry.path), entry) for entry in entries)
    counts = _counts((language.name, entry) for language, entry in languages if language)
    ordered = sorted(counts, key=lambda name: -counts[name]["bytes"])
    return [{"name": name, **counts[name]} for name in ordered[:_LISTED]]


def _layout(entries: Sequence[TreeEntry]) -> list[dict[str, Any]]:
    counts = _counts(("".join(entry.path.partition("/")[:2]), entry) for entry in entries)
    ordered = sorted(counts, key=lambda path: (not path.endswith("/"), path))
    return [{"path": path, **counts[path]} for path in ordered[: 2 * _LISTED]]


def _counts(named: Iterable[tuple[str, TreeEntry]]) -> dict[str, dict[str, int]]:
    """Return the number of files and their bytes by name."""
    counts: defaultdict[str, dict[str, int]] = defaultdict(lambda: {"files": 0, "bytes": 0})
    for name, entry in named:
        counts[name]["files"] += 1
        counts[name]["bytes"] += entry.size
    return counts


def _hot_spot(one: PathHistory) -> dict[str, Any]:
    return {
        "path": one.path,
        "changes": one.changes,
        "authors": one.authors,
        "last_changed": one.last_changed.isoformat(),
    }


def _commit(one: CommitFiles) -> dict[str, str]:
    return {"commit": one.commit, "date": one.when.date().isoformat(), "subject": one.subject}


def _together(history: RepoHistory) -> dict[str, Any]:
    """Return pairs of paths as indexes into a list, because most paths are in several pairs."""
    at = _numbered(path for pair in history.together for path in (pair.one, pair.other))
    pairs = [[at[one.one], at[one.other], one.commits, one.last_changed.date().isoformat()] for one in history.together]
    return {"commits": history.commits, "paths": [*at], "pairs": pairs}


def _subjects(commits: Sequence[CommitFiles]) -> dict[str, Any]:
    """Return subjects of commits with the files they touched, as indexes into a list."""
    at = _numbered(path for commit in commits for path in commit.paths)
    return {"paths": [*at], "commits": [[one.subject, *(at[path] for path in one.paths)] for one in commits]}


def _numbered(paths: Iterable[str]) -> dict[str, int]:
    return {path: place for place, path in enumerate(sorted(set(paths)))}


def _first(entries: Iterable[TreeEntry], name: re.Pattern[str]) -> TreeEntry | None:
    matching = [entry for entry in entries if name.fullmatch(entry.path)]
    # README.md before README.rst, and LICENSE before LICENSE-THIRD-PARTY-like longer names.
    return min(matching, key=lambda entry: (not entry.path.endswith(".md"), len(entry.path))) if matching else None


def _entry_points(entries: Sequence[TreeEntry], texts: Mapping[str, str]) -> Iterator[dict[str, str]]:
    for path in _MANIFESTS:
        programs = read_manifest(path, texts.get(path, "")).programs
        yield from ({"name": name, "at": at, "in": path} for name, at in programs.items())
    matching = [entry.path for entry in entries if _ENTRY_POINT.fullmatch(entry.path)]
    for path in sorted(matching, key=lambda path: (path.count("/"), path)):
        yield {"name": PurePosixPath(path).name, "at": path, "in": path}


def document_entries(entries: Sequence[TreeEntry]) -> list[TreeEntry]:
    """Return the documents in the map: those nearest to the top."""
    matching = [entry for entry in entries if _DOCUMENT.fullmatch(entry.path)]
    return sorted(matching, key=lambda entry: (entry.path.count("/"), entry.path))[:_DOCUMENTS]


def api_entries(entries: Sequence[TreeEntry]) -> list[TreeEntry]:
    """Return the descriptions of APIs in the map."""
    return [entry for entry in entries if _API.search(entry.path)][:_APIS]


def module_paths(entries: Sequence[TreeEntry]) -> list[str]:
    """Return the folders that are modules in the map."""
    return [module.path for module in _modules(entries)]


def folders_of(entries: Sequence[TreeEntry]) -> frozenset[str]:
    """Return the folders that contain code, at any depth."""
    return frozenset(_folders(entries)) - {""}


def _modules(entries: Sequence[TreeEntry]) -> list[_Module]:
    """Return the largest packages of the first level, then of the second, in the order of their paths."""
    ranked = sorted(_all_modules(entries), key=lambda module: (module.parent is not None, -module.size, module.path))
    return sorted(ranked[:_MODULES], key=lambda module: module.path)


def _all_modules(entries: Sequence[TreeEntry]) -> list[_Module]:
    """Return the packages of the first and second level: folders of code below the top and below containers."""
    folders = _folders(entries)
    return [module for first in _packages(folders, "") for module in _with_children(folders, first)]


def _folders(entries: Sequence[TreeEntry]) -> dict[str, _Folder]:
    counts: dict[tuple[str, str], list[int]] = {}
    for entry in entries:
        language = counted_language(entry.path)
        if language and language.code and "/" in entry.path:
            count = counts.setdefault((entry.path.rpartition("/")[0], language.name), [0, 0])
            count[0] += 1
            count[1] += entry.size
    folders: dict[str, _Folder] = defaultdict(_Folder)
    for (folder, language_name), (files, size) in counts.items():
        folders[folder].own += files
        while True:
            folders[folder].files += files
            folders[folder].languages[language_name] += size
            parent = folder.rpartition("/")[0]
            folders[parent].children.add(folder)
            if not parent:
                break
            folder = parent
    return folders


def _packages(folders: Mapping[str, _Folder], above: str) -> list[str]:
    """Return the packages directly below `above`, looking through containers and chains such as `src/main/java`."""
    packages: list[str] = []
    for path in sorted(folders[above].children if above in folders else ()):
        packages += _packages(folders, path) if _is_passage(path, folders[path]) else [path]
    return packages


def _is_passage(path: str, folder: _Folder) -> bool:
    name = path.rpartition("/")[2].lower()
    holds_only_folders = not folder.own and bool(folder.children)
    return holds_only_folders and name not in _ASIDE and (name in _CONTAINERS or len(folder.children) == 1)


def _with_children(folders: Mapping[str, _Folder], path: str) -> Iterator[_Module]:
    yield _module(folders, path, None)
    if path.rpartition("/")[2].lower() not in _ASIDE:
        yield from (_module(folders, child, path) for child in _packages(folders, path))


def _module(folders: Mapping[str, _Folder], path: str, parent: str | None) -> _Module:
    folder = folders[path]
    language = folder.languages.most_common(1)[0][0]
    return _Module(path, parent, folder.files, folder.languages.total(), language)


def _nodes(
    facts: RepoFacts, entries: Sequence[TreeEntry], texts: Mapping[str, str], modules: Sequence[_Module]
) -> Iterator[NodeDraft]:
    whole = f"repo:{facts.slug}"
    aliases = tuple(sorted({facts.name.rpartition("/")[2], *filter(None, [facts.remote])} - {facts.name}))
    yield NodeDraft("repo", facts.name, facts.slug, summary=_about(texts), aliases=aliases)
    for module in modules:
        yield _module_node(facts, module, texts.get(f"{module.path}/__init__.py", ""))
    for entry in document_entries(entries):
        yield NodeDraft("document", entry.path, f"{facts.slug}/{entry.path}", part_of=whole)
    for entry in api_entries(entries):
        name = PurePosixPath(entry.path).stem
        yield NodeDraft("api", name, f"{facts.slug}/{entry.path}", aliases=(entry.path,), part_of=whole)


def _module_node(facts: RepoFacts, module: _Module, text: str) -> NodeDraft:
    short = _import_path(module.path)
    counted = f"{module.language}, {_files(module.files)}, {module.path}/"
    aliases = {module.path, short.replace("/", ".")} if module.language == "Python" else {module.path}
    return NodeDraft(
        "module",
        short,
        f"{facts.slug}/{module.path}",
        summary=f"{_docstring(text)} ({counted})".lstrip(),
        aliases=tuple(sorted(aliases - {short})),
        part_of=f"module:{facts.slug}/{module.parent}" if module.parent else f"repo:{facts.slug}",
    )


def _import_path(path: str) -> str:
    parts = path.split("/")
    while len(parts) > 1 and parts[0] in _CONTAINERS:
        parts = parts[1:]
    return "/".join(parts)


def _docstring(text: str) -> str:
    """Return the first paragraph of a Python module's docstring."""
    match = _DOCSTRING.match(text)
    return _first_prose(_RULE.sub("", match[2]))[:200] if match else ""


def _about(texts: Mapping[str, str]) -> str:
    """Return the first paragraph of prose in the README: below its title, or below a heading that introduces it."""
    readme = next((text for path, text in texts.items() if _README.fullmatch(path)), "")
    headings = [*_HEADING.finditer(readme)]
    ends = [*(heading.start() for heading in headings[1:]), len(readme)]
    bodies = [(one[1] or one[2], readme[one.end() : end]) for one, end in zip(headings, ends, strict=False)]
    lead = readme[: headings[0].start()] if headings else readme
    bodies_about = (body for place, (title, body) in enumerate(bodies) if place == 0 or _ABOUT.search(title))
    return next(filter(None, map(_first_prose, [lead, *bodies_about])), "")[:400]


def _first_prose(text: str) -> str:
    """Return the first paragraph that starts like a sentence, not like a heading, a badge, a directive or a notice."""
    paragraphs = (" ".join(paragraph.split()) for paragraph in re.split(r"\n\s*\n", text))
    return next((one for one in paragraphs if re.match(r"[`*]*[^\W_]", one) and not _NOTICE.match(one)), "")


def _lines(facts: RepoFacts, payload: Mapping[str, Any], about: str) -> Iterator[str]:
    """Yield the map as readable text: one line per item."""
    yield f"Repository {facts.name}" + (f" at commit {facts.commit[:12]}" if facts.commit else "")
    yield from (line for line in (about, facts.branch and f"Branch: {facts.branch}") if line)
    yield f"Size: {_files(payload['files'])}, {payload['bytes']} bytes"
    licence = payload["licence"] or {}
    named = {
        "Languages": [f"{one['name']} ({_files(one['files'])})" for one in payload["languages"][:8]],
        "Licence": [licence["spdx"] or licence["path"]] if licence else [],
        "Read first": [payload["readme"]] if payload["readme"] else [],
        "Top level": [one["path"] for one in payload["layout"]],
        "Modules": payload["modules"],
        "Documents": payload["documents"],
        "APIs": payload["apis"],
        "Entry points": [_arrow(one) for one in payload["entry_points"]],
        "Most changed lately": [f"{one['path']} ({one['changes']})" for one in payload["hot_spots"][:10]],
    }
    yield from (f"{heading}: {', '.join(parts)}" for heading, parts in named.items() if parts)


def _arrow(entry_point: Mapping[str, str]) -> str:
    name, at = entry_point["name"], entry_point["at"]
    return at if at.endswith(name) else f"{name} -> {at}"


def _files(count: int) -> str:
    return "1 file" if count == 1 else f"{count} files"
