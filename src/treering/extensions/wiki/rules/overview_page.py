"""The page that a reader opens first: what the repository is, how to start, its parts, its most central modules."""

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from treering.core.counting import counted_things
from treering.core.objects import Fact
from treering.extensions.wiki.pages import PageKind, PagePlan, WikiPage, WikiPlan
from treering.extensions.wiki.repository.facts import RepositoryFacts, package_purpose, purpose_of
from treering.extensions.wiki.repository.files import WikiFile
from treering.extensions.wiki.repository.packages import part_title
from treering.extensions.wiki.repository.prose import cut, words_of
from treering.extensions.wiki.repository.sections import DocumentSection
from treering.extensions.wiki.rules.architecture_page import folder_groups
from treering.extensions.wiki.rules.page_body import (
    ARCHITECTURE,
    CHANGES,
    DECISIONS,
    HOWTO,
    REFERENCE,
    PageBody,
    PagePaths,
    bullets,
    code,
    document_title,
    fenced,
    paragraph,
    plain,
    shown,
    table,
)
from treering.verbs.query.brief import commands_by_job

_INTRODUCTION_CHARS = 700
_START_TITLES = (
    "quickstart",
    "quick start",
    "getting started",
    "get started",
    "usage",
    "installation",
    "install",
    "installing",
)
_START_ALSO = ("example", "run", "a simple example", "hello world", "basics")
_MOST_STARTS = 4
_FEW_STARTS = 2
_STARTING_FILE = re.compile(r"install|quick-?start|getting[-_]?started|first[-_]steps", re.IGNORECASE)
_NO_LETTERS = re.compile(r"^\W+")
_CODE_LINES = 25
_CENTRAL = 10
_MOST_DEPENDENCIES = 30
_MOST_ASIDE = 8
_FURTHER = {
    ARCHITECTURE: "the layers and their imports",
    HOWTO: "tasks with code, from the documents and examples",
    REFERENCE: "everything public, by module",
    DECISIONS: "decisions and rules in force",
    CHANGES: "recent work and the files that change most",
}


def write_overview(facts: RepositoryFacts, paths: PagePaths, plan: WikiPlan, page: PagePlan) -> WikiPage:
    """Write the overview."""
    body = PageBody(plan, page)
    readme = readme_of(facts)
    sections = facts.sections(readme) if readme else ()
    if readme:
        body.add(*_introduction(body, readme, sections))
    body.add(_at_a_glance(facts, body))
    body.section("Start", *_start(body, _first_steps(facts, paths, readme, sections)))
    body.section("Parts", _parts(facts, paths, body))
    body.section("Most central modules", _central(facts, paths, body))
    body.section("Documents", *_documents(paths, body))
    body.section("Read on", _further(body))
    return body.finish()


def readme_of(facts: RepositoryFacts) -> WikiFile | None:
    """Return the README of the repository."""
    found = [file for path, file in facts.files.files.items() if "/" not in path and path.lower().startswith("readme")]
    return min(
        (file for file in found if file.head), key=lambda file: (not file.path.endswith(".md"), file.path), default=None
    )


def cut_code(text: str, most: int) -> tuple[str, bool]:
    """Return the first lines of some code, and whether that is not all of it."""
    lines = text.split("\n")
    return "\n".join(lines[:most]), len(lines) > most


def _introduction(body: PageBody, readme: WikiFile, sections: Sequence[DocumentSection]) -> Iterable[str]:
    room, first = _INTRODUCTION_CHARS, True
    for section in sections[:4]:
        for block in section.blocks:
            words = cut(words_of(block.text), room) if block.kind == "paragraph" else []
            said = "".join(one.text for one in words)
            if len(said) < 20 or room < 100 or (block.text.endswith(":") and not first):
                continue
            room -= len(said)
            yield f"{paragraph(words)} ({body.source(readme, section.cite(block), 'README')})"
            first = False
        if not first:
            return


def _at_a_glance(facts: RepositoryFacts, body: PageBody) -> str:
    card = facts.files.payload.get("card")
    rows = [*_stated_rows(card, facts, body)] if isinstance(card, dict) else []
    stated = [(file, one) for file, one in _manifest_facts(facts) if "/" not in file.path]
    licence = next(((file, fact) for file, fact in stated if fact.predicate == "license"), None)
    if licence:
        rows.append(("Licence", f"{plain(str(licence[1].value))} ({body.file(licence[0])})"))
    languages = facts.files.payload.get("languages", ())
    if isinstance(languages, list):
        told = [f"{plain(str(one.get('name')))} ({one.get('files')})" for one in languages[:5] if isinstance(one, dict)]
        rows.append(("Languages (files)", ", ".join(told)))
    commands = [f"{code(name)} is {code(at)}" for name, at in _commands(facts)]
    if commands:
        rows.append(("Entry points", ", ".join(commands)))
    needs = [
        f"{plain(fact.predicate.removeprefix('depends on '))}"
        for _, fact in stated
        if fact.predicate.startswith("depends on ")
    ]
    if needs:
        more = f" and {len(needs) - _MOST_DEPENDENCIES} more" if len(needs) > _MOST_DEPENDENCIES else ""
        rows.append(("Depends on", ", ".join(needs[:_MOST_DEPENDENCIES]) + more))
    return table(("At a glance", ""), rows) if rows else ""


def _stated_rows(card: Mapping[str, Any], facts: RepositoryFacts, body: PageBody) -> Iterator[tuple[str, str]]:
    """Return what the card of the project states, with links to the files that state it."""
    files = [body.file(file) for path in card.get("read_from", ()) if (file := facts.files.files.get(path))]
    read_from = f" ({', '.join(files)})" if files else ""
    for label, values in (("Version", [card.get("version", "")]), ("Needs", card.get("requires", ()))):
        if any(values):
            yield label, f"{plain(', '.join(values))}{read_from}"
    if commands := " · ".join(commands_by_job(card)):
        yield "Commands", commands


def _manifest_facts(facts: RepositoryFacts) -> list[tuple[WikiFile, Fact]]:
    found = []
    for one in facts.known.facts:
        files = [facts.files.by_id[ref.source_id] for ref in one.evidence_refs if ref.source_id in facts.files.by_id]
        if files and isinstance(one.payload, Fact):
            found.append((files[0], one.payload))
    return found


def _commands(facts: RepositoryFacts) -> list[tuple[str, str]]:
    entries = facts.files.payload.get("entry_points", ())
    declared = [one for one in entries if isinstance(one, dict) and one.get("at") != one.get("in")]
    return [(str(one.get("name")), str(one.get("at"))) for one in declared[:8]]


def _start(body: PageBody, steps: Sequence[tuple[WikiFile, DocumentSection]]) -> Iterable[str]:
    for file, section in steps:
        block = section.first_code
        if block is None:
            continue
        text, is_cut = cut_code(block.text, _CODE_LINES)
        where = body.source(file, section.cite(block), code(file.path))
        yield f"{plain(section.title) or 'An example'} ({where}{', which has more' if is_cut else ''}):"
        yield fenced(text, block.language)


def _first_steps(
    facts: RepositoryFacts, paths: PagePaths, readme: WikiFile | None, sections: Sequence[DocumentSection]
) -> list[tuple[WikiFile, DocumentSection]]:
    """Return the sections that say how to install and use it: of the README, and where it has few, of the documents."""
    found = [(readme, section) for section in _starting(sections)] if readme else []
    if any(_rank(section) == 0 for _, section in found):
        return found
    for file in paths.documents_by_rank[: paths.most_documents]:
        if len(found) < _FEW_STARTS and file is not readme and _STARTING_FILE.search(file.path):
            steps = [section for section in facts.sections(file) if section.first_code and _rank(section) == 0]
            found += [(file, section) for section in steps[:_FEW_STARTS]]
    return sorted(found, key=lambda step: step[0] is readme)[:_MOST_STARTS]


def _starting(sections: Sequence[DocumentSection]) -> list[DocumentSection]:
    with_code = [section for section in sections if section.first_code]
    best = sorted(with_code, key=_rank)
    asked = [section for section in best if _rank(section) < 2] or best[:1]
    return sorted(asked[:_MOST_STARTS], key=lambda section: section.lines.first)


def _rank(section: DocumentSection) -> int:
    """Tell how well the title of a section says that it tells how to start; the lower, the better."""
    title = _NO_LETTERS.sub("", section.title.lower())
    return 0 if title.startswith(_START_TITLES) else 1 if title.startswith(_START_ALSO) else 2


def _parts(facts: RepositoryFacts, paths: PagePaths, body: PageBody) -> str:
    grouped = folder_groups(facts)
    rows = []
    for group in grouped.groups:
        inside = grouped.files[group]
        label = code(part_title(facts.files, group, [facts.files.files[path] for path in inside]))
        part = (
            facts.code.parts.get(group) or facts.part_of(inside[0]) if len(inside) == 1 else facts.code.parts.get(group)
        )
        page = body.to_page(paths.parts[part.key], label) if part else label
        said = shown(package_purpose(part, facts)) if part else ""
        rows.append((page, code(f"{group}/" if group != "." else "./"), str(len(inside)), said or "–"))
    said = table(("Part", "Folder", "Files", "Purpose"), rows) if rows else ""
    aside = sorted({path.partition("/")[0] for path in facts.code.aside})
    count = sum(facts.code.aside.values())
    named = ", ".join(code(one) for one in aside[:_MOST_ASIDE])
    return said + (
        f"\n\n{counted_things(count, 'file')} of supporting code without pages, in {named}." if aside else ""
    )


def _central(facts: RepositoryFacts, paths: PagePaths, body: PageBody) -> str:
    rows = []
    files = sorted(facts.code.of_file, key=lambda path: (-round(facts.graph.importance.get(path, 0.0), 6), path))
    for path in files[:_CENTRAL]:
        file = facts.files.files[path]
        users = {
            link.start for link in facts.graph.incoming.get(path, ()) if facts.files.files[link.start].role == "code"
        }
        label = part_title(facts.files, path) if paths.parts.get(path) else path
        page = body.to_page(paths.of_file(path), code(label))
        rows.append((page, shown(purpose_of(file, facts)) or "–", str(len(users))))
    if not rows:
        return ""
    said = "Ranked by PageRank over imports, calls and uses."
    return f"{said}\n\n{table(('Module', 'Purpose', 'Used by files'), rows)}"


def _documents(paths: PagePaths, body: PageBody) -> Iterable[str]:
    folders: dict[str, list[PagePlan]] = defaultdict(list)
    for page in body.plan.pages:
        if page.kind == PageKind.DOCUMENT:
            folders[page.relevant_files[0].rpartition("/")[0]].append(page)
    rows = []
    for folder in sorted(folders):
        pages = sorted(folders[folder], key=lambda page: (page.title.casefold(), page.path))
        told = [body.to_page(page.path, plain(page.title)) for page in pages]
        rows.append((code(f"{folder or '.'}/"), ", ".join(told)))
    if rows:
        yield table(("Folder", "Documents"), rows)
    left = [file for file in paths.documents_by_rank if file.path not in paths.documents]
    if left:
        named = ", ".join(code(one) for one in sorted({f"{file.folder or '.'}/" for file in left})[:8])
        yield f"{counted_things(len(left), 'more document')} without pages, in {named}."


def _further(body: PageBody) -> str:
    pages = {page.path: page for page in body.plan.pages}
    return bullets(
        [f"{body.to_page(path, plain(pages[path].title))}: {said}." for path, said in _FURTHER.items() if path in pages]
    )


# The page "How do I …": tasks that the documents show code for, and the examples of the repository.


_MOST_DOCUMENTS = 12
_MOST_TASKS = 6
_MOST_EXAMPLES = 30
_EXAMPLE_LINES = 16
_SENTENCE_CHARS = 220
_NO_TASK = frozenset(
    {"changelog", "license", "licence", "contributing", "index", "api", "references", "reference", "table of contents"}
)


def howto_documents(facts: RepositoryFacts, paths: PagePaths) -> list[tuple[WikiFile, list[DocumentSection]]]:
    """Return the documents that show code for tasks, with the sections that do."""
    found: list[tuple[WikiFile, list[DocumentSection]]] = []
    seen: set[str] = set()
    for file in paths.documents_by_rank[: 3 * paths.most_documents]:
        tasks = [section for section in facts.sections(file) if _is_task(section, seen)]
        if tasks:
            found.append((file, tasks))
        if len(found) == _MOST_DOCUMENTS:
            break
    return found


def write_howto(facts: RepositoryFacts, paths: PagePaths, plan: WikiPlan, page: PagePlan) -> WikiPage:
    """Write the page."""
    body = PageBody(plan, page)
    for file, tasks in howto_documents(facts, paths):
        heading = body.to_page(paths.documents.get(file.path, ""), plain(document_title(file)))
        body.add(f"## {heading}")
        for section in tasks[:_MOST_TASKS]:
            body.add(*_task(body, file, section))
        left = len(tasks) - _MOST_TASKS
        if left > 0:
            body.add(f"{counted_things(left, 'more task')} with code in {body.file(file)}.")
    body.section("Examples", *_examples(facts, body))
    if not body.parts:
        body.add("The documents of this repository contain no code for tasks, and there are no examples.")
    return body.finish()


def _is_task(section: DocumentSection, seen: set[str]) -> bool:
    """Tell whether a section shows code for a task that no section before it showed."""
    block = section.first_code
    said = section.title.lower().strip()
    if block is None or not said or said in _NO_TASK or block.text in seen:
        return False
    seen.add(block.text)
    return True


def _task(body: PageBody, file: WikiFile, section: DocumentSection) -> Iterable[str]:
    block = section.first_code
    if block is None:
        return
    around = " – ".join(plain(one) for one in section.headings[1:-1])
    title = plain(section.title)
    yield f"### {title}" + (f" ({around})" if around else "")
    first = section.first_paragraph
    said = cut(words_of(first.text), _SENTENCE_CHARS) if first and first.first < block.first else []
    where = body.source(file, section.cite(block))
    yield f"{paragraph(said)} ({where})" if said else f"From {where} of {body.file(file)}:"
    text, is_cut = cut_code(block.text, _EXAMPLE_LINES)
    yield fenced(text, block.language)
    if is_cut:
        yield f"The rest is in {where}."


def _examples(facts: RepositoryFacts, body: PageBody) -> Iterable[str]:
    """Tell of the examples by folder, each with what it says of itself and the file to read first."""
    folders: dict[str, list[WikiFile]] = defaultdict(list)
    for file in facts.files.of_role("example"):
        if file.head:
            folders[example_folder(file.path)].append(file)
    rows = []
    for folder in sorted(folders)[:_MOST_EXAMPLES]:
        first = _to_read_first(folders[folder])
        said = shown(purpose_of(first, facts)) if first.code else ""
        rows.append((code(f"{folder}/"), body.file(first), said or "–"))
    if rows:
        yield table(("Example", "Read first", "Description"), rows)
        left = len(folders) - len(rows)
        if left:
            yield f"{counted_things(left, 'more folder')} with examples."


def example_folder(path: str) -> str:
    """Return the folder that holds one example: right below the folder of examples."""
    parts = path.split("/")
    return "/".join(parts[:2]) if len(parts) > 2 else parts[0]


def _to_read_first(files: Sequence[WikiFile]) -> WikiFile:
    def rank(file: WikiFile) -> tuple[bool, bool, int, str]:
        stem = file.name.rpartition(".")[0].lower()
        is_main = stem in ("main", "app", "index", "server", "example") or stem.startswith("tutorial001")
        return (file.code is None, not is_main, file.path.count("/"), file.path)

    return min(files, key=rank)
