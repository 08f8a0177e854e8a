"""The purposes of modules, packages and folders, in the words of their files."""

import re
from collections.abc import Iterable, Sequence
from itertools import islice

from treering.extensions.wiki.repository.api_entries import ApiEntry
from treering.extensions.wiki.repository.facts import RepositoryFacts
from treering.extensions.wiki.repository.files import WikiFile
from treering.extensions.wiki.repository.packages import CodePart, repository_title, stands_for_folder
from treering.extensions.wiki.repository.prose import Words, words_of

MIN_PARAGRAPH_CHARS = 20
_MIN_WORDS = 4
"""A text that is shorter in both, such as a label, describes nothing."""
_MAX_NAMES = 4
"""A list of more names does not describe a module, and is omitted."""
_MAX_DOCUMENTS = 200
"""The number of documents that are searched for a sentence about a part."""
_NO_PURPOSE = re.compile(r"see\b|[\"“„«][^\"”“»]*[\"”“»]$", re.IGNORECASE)
"""Matches pointers to other texts, and mottos in quotation marks."""
_TYPES = ("class", "interface", "trait", "struct")
_SOURCE_FOLDER = re.compile(r"(?:^|/)(?:src|lib|source)$")
_SOURCES = re.compile(r"^src/(?:main/\w+/)?")
_NO_LETTERS = re.compile(r"[\W_]+")


def part_purpose(part: CodePart, facts: RepositoryFacts) -> list[Words]:
    """Return the purpose of a package or module as a person described it on its page, else its stated purpose."""
    described = facts.known.described.get(("modules", part.title), "")
    return words_of(described) or stated_purpose(part, facts)


def stated_purpose(part: CodePart, facts: RepositoryFacts) -> list[Words]:
    """Return the purpose of a package or module as its files or its README state it, else its few names or users."""
    files = facts.files_of(part)
    if not part.is_package:
        folder = files[0].folder
        is_alone = bool(folder) and folder not in facts.code.parts and not any(file.purpose for file in files)
        is_alone = is_alone and not any(key.startswith(f"{folder}/") for key in facts.code.parts if key != part.key)
        readme = folder_purpose(folder, facts) if is_alone else []
        return readme or _purpose_of_module(files, facts) or _users(files, facts)
    entry = next((file for file in files if file.purpose and _describes_package(file)), None)
    if entry:
        return list(entry.purpose)
    is_whole = part.title.casefold() == repository_title(facts.files).casefold()
    stated = folder_purpose("" if is_whole else part.key, facts) or _introduced(part, facts)
    if stated or part.modules:
        return stated
    return _by_definitions(files, part.key.rpartition("/")[2], facts) or _users(files, facts)


def _introduced(part: CodePart, facts: RepositoryFacts) -> list[Words]:
    """Return the introduction of a document that begins with the name of a part, such as "`blackd` is a server"."""
    files = (file for file in facts.files.of_role("documentation") if file.head)
    documents = (introduction_of(file, facts) for file in islice(files, _MAX_DOCUMENTS))
    beginning = f"{part.title} is "
    return next((words for words in documents if "".join(one.text for one in words).startswith(beginning)), [])


def folder_purpose(folder: str, facts: RepositoryFacts) -> list[Words]:
    """Return the introduction of the README of a folder, or of its parent if it is a folder for sources."""
    for one in (folder, _SOURCE_FOLDER.sub("", folder)):
        if one in facts.readmes and (words := introduction_of(facts.readmes[one], facts)):
            return words
    return []


def introduction_of(document: WikiFile, facts: RepositoryFacts) -> list[Words]:
    """Return the first paragraph of a document that describes: no footer, motto, and announcement of a list or code."""
    if document.path not in facts.introductions:
        texts = (text for text in facts.paragraphs(document) if text not in facts.repeated_paragraphs)
        described = (words_of(text) for text in texts if not text.endswith(":") and not _NO_PURPOSE.match(text))
        facts.introductions[document.path] = next(filter(_is_long, described), [])
    return facts.introductions[document.path]


def purpose_of(file: WikiFile, facts: RepositoryFacts) -> list[Words]:
    """Return the purpose of a file: as described on its page, else as it states it, else by its definitions."""
    part = facts.part_of(file.path)
    described = facts.known.described.get(("modules", part.title), "") if part and not part.is_package else ""
    return words_of(described) or _purpose_of_module([file], facts)


def _purpose_of_module(files: Sequence[WikiFile], facts: RepositoryFacts) -> list[Words]:
    if stated := next((file.purpose for file in files if file.purpose), None):
        return list(stated)
    return _by_definitions(files, files[0].name.partition(".")[0], facts)


def listed(verb: str, names: Sequence[str]) -> list[Words]:
    """Return "Defines a, b.", or nothing without names or with too many."""
    if not 1 <= len(names) <= _MAX_NAMES:
        return []
    words = [Words(f"{verb} ")]
    for at, name in enumerate(names):
        words += [Words(", ")] * bool(at) + [Words(name, code=True)]
    return [*words, Words(".")]


def contents(paths: Iterable[str], folder: str, facts: RepositoryFacts) -> list[Words]:
    """Return "Contains a, b and 3 more.": the folders and modules directly below a folder, most important first."""
    files = [facts.files.files[path] for path in facts.by_importance(paths)]
    below = [file.path.removeprefix(f"{folder}/") for file in files if not _is_entry(file, folder)]
    names = list(dict.fromkeys(_SOURCES.sub("", path).split("/")[0].partition(".")[0] for path in below))
    words = listed("Contains", names[:_MAX_NAMES])
    more = len(names) - _MAX_NAMES
    return [*words[:-1], Words(f" and {more} more.")] if more > 0 else words


def _is_entry(file: WikiFile, folder: str) -> bool:
    return stands_for_folder(file) and _SOURCE_FOLDER.sub("", file.folder) == _SOURCE_FOLDER.sub("", folder)


def _describes_package(file: WikiFile) -> bool:
    text = "".join(one.text for one in file.purpose)
    return stands_for_folder(file) or (file.language == "go" and text.startswith(("Package ", "Command ")))


def _by_definitions(files: Sequence[WikiFile], name: str, facts: RepositoryFacts) -> list[Words]:
    """Return the docs of the definition that files are about: one with their name, the only or the heaviest one.

    Without docs, list the definitions if they are few and say more than the name of the files.
    """
    entries = [entry for file in files for entry in facts.important(file)]
    named = next((one for one in entries if _same(one.short, name)), None)
    main = named or (entries[0] if entries and _outweighs(entries, files[0], facts) else None)
    if main and main.doc:
        return _described(main)
    others = [entry for entry in entries if not _same(entry.short, name)]
    return listed("Defines", list(dict.fromkeys(entry.short for entry in entries)) if others else [])


def _described(entry: ApiEntry) -> list[Words]:
    """Return the name and the docs of a definition; docs often begin with the name."""
    name, first = Words(entry.short, code=True), entry.doc[0].text
    if first.startswith(f"{entry.short} "):
        return [name, Words(first.removeprefix(entry.short)), *entry.doc[1:]]
    return [name, *entry.doc[1:]] if first == entry.short else [name, Words(": "), *entry.doc]


def _users(files: Sequence[WikiFile], facts: RepositoryFacts) -> list[Words]:
    """List the parts that import files, if they are few."""
    links = facts.graph.to_files(*(file.path for file in files))
    parts = {part.key: part.title for link in links if link.imports and (part := facts.part_of(link.start))}
    own = {facts.code.of_file.get(file.path) for file in files}
    return listed("Used by", sorted(title for key, title in parts.items() if key not in own))


def _outweighs(entries: Sequence[ApiEntry], file: WikiFile, facts: RepositoryFacts) -> bool:
    """Return whether the first definition is the main one of its file."""
    if len(entries) == 1 or entries[0].kind not in _TYPES:
        return len(entries) == 1
    weights = [facts.graph.symbols.get((file.source_id, one.lines.segment_id), 0.0) for one in entries]
    return len(entries) <= _MAX_NAMES or weights[0] >= sum(weights[1:]) / 2


def _is_long(words: Sequence[Words]) -> bool:
    text = "".join(one.text for one in words)
    return len(text) >= MIN_PARAGRAPH_CHARS or len(text.split()) >= _MIN_WORDS


def _same(one: str, other: str) -> bool:
    return _NO_LETTERS.sub("", one).casefold() == _NO_LETTERS.sub("", other).casefold()
