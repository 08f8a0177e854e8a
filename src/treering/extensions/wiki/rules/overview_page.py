"""The overview: introduction, project card, first steps, parts, and the most central modules."""

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from treering.core.counting import counted_things
from treering.core.objects import Fact
from treering.extensions.wiki.pages import PageKind, PagePlan
from treering.extensions.wiki.repository.facts import RepositoryFacts
from treering.extensions.wiki.repository.files import WikiFile, mapping
from treering.extensions.wiki.repository.prose import cut, words_of
from treering.extensions.wiki.repository.purposes import MIN_PARAGRAPH_CHARS, contents, folder_purpose, part_purpose
from treering.extensions.wiki.repository.sections import DocumentSection
from treering.extensions.wiki.rules.howto_page import cut_code
from treering.extensions.wiki.rules.layers import folder_groups, group_part, group_title, ranked_groups
from treering.extensions.wiki.rules.markdown import bullets, code, fenced, paragraph, plain, shown, table
from treering.extensions.wiki.rules.page_body import PageBody
from treering.extensions.wiki.rules.page_paths import MAX_DOCUMENT_PAGES
from treering.verbs.query.brief import commands_by_job

MAX_INTRODUCTION_CHARS = 700
MIN_INTRODUCTION_CHARS = 100
"""The introduction ends when fewer characters than this are left."""
MAX_STEPS = 4
ENOUGH_STEPS = 2
"""Further documents are searched for first steps only if the README has fewer."""
MAX_CODE_LINES = 25
MAX_CENTRAL = 10
MAX_DEPENDENCIES = 30
MAX_FOLDERS = 8
MAX_PURPOSE_CHARS = 200
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
_USAGE_TITLES = ("example", "run", "a simple example", "hello world", "basics")
_START_FILE = re.compile(r"install|quick-?start|getting[-_]?started|first[-_]steps", re.IGNORECASE)
_ABOUT_MONEY = re.compile(r"sponsor|donat|backers|funding|open collective", re.IGNORECASE)
_NO_LETTERS = re.compile(r"^\W+")
_LISTED_ABOVE = (PageKind.OVERVIEW, PageKind.MODULE, PageKind.DOCUMENT)


def write_overview(body: PageBody) -> None:
    """Write the overview."""
    readme = body.facts.readmes.get("")
    if readme:
        body.add(*_introduction(body, readme))
    body.add(_at_a_glance(body))
    body.section("Start", *_start(body, _first_steps(body, readme)))
    body.section("Parts", *_parts(body))
    body.section("Most central modules", *_central(body))
    body.section("Documents", *_documents(body))
    body.section("Read on", _further(body))


def _introduction(body: PageBody, readme: WikiFile) -> Iterable[str]:
    left, first = MAX_INTRODUCTION_CHARS, True
    sections = [one for one in body.facts.sections(readme) if not _ABOUT_MONEY.search(" ".join(one.headings))]
    for section in sections[:4]:
        for block in section.blocks:
            words = cut(words_of(block.text), left) if block.kind == "paragraph" else []
            length = sum(len(one.text) for one in words)
            is_lead_in = block.text.endswith(":") and not (first and section is sections[0])
            if length < MIN_PARAGRAPH_CHARS or left < MIN_INTRODUCTION_CHARS or is_lead_in:
                continue
            left -= length
            yield f"{paragraph(words)} ({body.source(section.cite(block), 'README')})"
            first = False
        if not first:
            return


def _at_a_glance(body: PageBody) -> str:
    payload = body.facts.files.payload
    rows = [*_card_rows(body, mapping(payload.get("card")))]
    stated = [(file, fact) for file, fact in _manifest_facts(body.facts) if "/" not in file.path]
    if licence := next(((file, fact) for file, fact in stated if fact.predicate == "license"), None):
        rows.append(("Licence", f"{plain(str(licence[1].value))} ({body.file(licence[0])})"))
    languages = payload.get("languages", ())
    if isinstance(languages, list):
        counts = [f"{plain(str(one.get('name')))} ({one.get('files')})" for one in map(mapping, languages[:5])]
        rows.append(("Languages (files)", ", ".join(counts)))
    known = body.facts.files.files  # a path that is not in the repository is the result of a build
    if commands := [
        f"{code(name)} is {code(at)}" for name, at in _entry_points(payload) if "/" not in at or at in known
    ]:
        rows.append(("Entry points", ", ".join(commands)))
    on = "depends on "
    needs = [plain(fact.predicate.removeprefix(on)) for _, fact in stated if fact.predicate.startswith(on)]
    if needs:
        more = f" and {len(needs) - MAX_DEPENDENCIES} more" if len(needs) > MAX_DEPENDENCIES else ""
        rows.append(("Depends on", ", ".join(needs[:MAX_DEPENDENCIES]) + more))
    return table(("At a glance", ""), rows)


def _card_rows(body: PageBody, card: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield the rows of the project card, with links to the files they were read from."""
    files = body.facts.files.files
    links = [body.file(files[path]) for path in card.get("read_from", ()) if path in files]
    read_from = f" ({', '.join(links)})" if links else ""
    for label, values in (("Version", [card.get("version", "")]), ("Needs", card.get("requires", ()))):
        if any(values):
            yield label, f"{plain(', '.join(values))}{read_from}"
    if commands := " · ".join(commands_by_job(card)):
        yield "Commands", commands


def _manifest_facts(facts: RepositoryFacts) -> list[tuple[WikiFile, Fact]]:
    stated = []
    for one in facts.known.facts:
        files = [facts.files.by_id[ref.source_id] for ref in one.evidence_refs if ref.source_id in facts.files.by_id]
        if files and isinstance(one.payload, Fact):
            stated.append((files[0], one.payload))
    return stated


def _entry_points(payload: Mapping[str, Any]) -> list[tuple[str, str]]:
    declared = [one for one in map(mapping, payload.get("entry_points", ())) if one.get("at") != one.get("in")]
    return [(str(one.get("name")), str(one.get("at"))) for one in declared[:8]]


def _start(body: PageBody, steps: Sequence[DocumentSection]) -> Iterable[str]:
    for section in steps:
        block = section.first_code
        if block is None:
            continue
        text, is_cut = cut_code(block.text, MAX_CODE_LINES)
        place = body.source(section.cite(block), code(section.lines.path))
        yield f"{plain(section.title) or 'An example'} ({place}{', which has more' if is_cut else ''}):"
        yield fenced(text, block.language)


def _first_steps(body: PageBody, readme: WikiFile | None) -> list[DocumentSection]:
    """Return the sections on installation and usage: from the README, or from the documents if it has too few."""
    steps = _starting(body.facts.sections(readme)) if readme else []
    if any(_rank(section) == 0 for section in steps):
        return steps
    in_documents: list[DocumentSection] = []
    for file in body.paths.documents_by_rank[:MAX_DOCUMENT_PAGES]:
        if len(steps) + len(in_documents) < ENOUGH_STEPS and file is not readme and _START_FILE.search(file.path):
            sections = [one for one in body.facts.sections(file) if one.first_code and _rank(one) == 0]
            in_documents += sections[:ENOUGH_STEPS]
    return [*in_documents, *steps][:MAX_STEPS]


def _starting(sections: Sequence[DocumentSection]) -> list[DocumentSection]:
    best = sorted((section for section in sections if section.first_code), key=_rank)
    titled = [section for section in best if _rank(section) < 2] or best[:1]
    return sorted(titled[:MAX_STEPS], key=lambda section: section.lines.first_line)


def _rank(section: DocumentSection) -> int:
    """Return 0 for a title about getting started, 1 for one about usage, 2 for others."""
    title = _NO_LETTERS.sub("", section.title.lower())
    return 0 if title.startswith(_START_TITLES) else 1 if title.startswith(_USAGE_TITLES) else 2


def _parts(body: PageBody) -> tuple[str, str]:
    facts = body.facts
    groups = folder_groups(facts)
    rows = []
    for group in ranked_groups(facts, groups):
        paths = groups.files[group]
        label = code(group_title(facts, groups, group))
        part = group_part(facts, groups, group)
        page = body.to_page(body.paths.parts[part.key], label) if part else label
        words = part_purpose(part, facts) if part else folder_purpose(group, facts)
        if not words and (part is None or part.modules):
            words = contents(paths, group, facts)
        words = cut(words, MAX_PURPOSE_CHARS)
        rows.append((page, code(f"{group}/" if group != "." else "./"), str(len(paths)), shown(words)))
    supporting = sorted({path.partition("/")[0] for path in facts.code.aside})
    count = counted_things(sum(facts.code.aside.values()), "file")
    names = ", ".join(code(one) for one in supporting[:MAX_FOLDERS])
    return (
        table(("Part", "Folder", "Files", "Purpose"), rows),
        f"{count} of supporting code without pages, in {names}." if supporting else "",
    )


def _central(body: PageBody) -> tuple[str, ...]:
    facts = body.facts
    rows = []
    for part in [one for one in facts.ranked_parts if one.files][:MAX_CENTRAL]:
        users = {
            link.start
            for link in facts.graph.to_files(*part.files)
            if link.is_stated and facts.files.files[link.start].role == "code" and link.start not in part.files
        }
        purpose = shown(cut(part_purpose(part, facts), MAX_PURPOSE_CHARS))
        rows.append((body.to_page(body.paths.parts[part.key], code(part.title)), purpose, str(len(users))))
    ranking = table(("Module", "Purpose", "Used by files"), rows)
    return ("Ranked by PageRank over imports, calls and uses.", ranking) if rows else ()


def _documents(body: PageBody) -> tuple[str, str]:
    folders: dict[str, list[PagePlan]] = defaultdict(list)
    for page in body.plan.pages:
        if page.kind == PageKind.DOCUMENT:
            folders[page.relevant_files[0].rpartition("/")[0]].append(page)
    rows = []
    for folder in sorted(folders):
        pages = sorted(folders[folder], key=lambda page: (page.title.casefold(), page.path))
        links = [body.to_page(page.path, plain(page.title)) for page in pages]
        rows.append((code(f"{folder or '.'}/"), ", ".join(links)))
    left = [file for file in body.paths.documents_by_rank if file.path not in body.paths.documents]
    names = ", ".join(code(one) for one in sorted({f"{file.folder or '.'}/" for file in left})[:MAX_FOLDERS])
    return (
        table(("Folder", "Documents"), rows),
        f"{counted_things(len(left), 'more document')} without pages, in {names}." if left else "",
    )


def _further(body: PageBody) -> str:
    pages = [page for page in body.plan.pages if page.kind not in _LISTED_ABOVE]
    return bullets([f"{body.to_page(page.path, plain(page.title))}: {page.purpose}" for page in pages])
