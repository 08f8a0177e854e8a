"""The page of what happened lately: work that was recorded, the changelog, files that change most and together."""

from collections.abc import Iterable, Mapping
from typing import Any

from treering.core.counting import counted_things
from treering.core.patch import shortened
from treering.extensions.wiki.pages import PagePlan, WikiPage, WikiPlan
from treering.extensions.wiki.repository.facts import RepositoryFacts
from treering.extensions.wiki.repository.files import WikiFile
from treering.extensions.wiki.repository.prose import cut, words_of
from treering.extensions.wiki.rules.page_body import (
    PageBody,
    PagePaths,
    bullets,
    code,
    paragraph,
    plain,
    short_text,
    shown,
    table,
)

_MOST_ACTIVITIES = 30
_MOST_WORK = 40
_MOST_ENTRIES = 2
_MOST_ITEMS = 25
_ITEM_CHARS = 240
_MOST_FILES = 20
_MOST_PAIRS = 20
_MOST_COMMITS = 20
_COMMIT_CHARS = 10


def has_changes(facts: RepositoryFacts) -> bool:
    """Tell whether there is anything to say."""
    known = facts.known
    of_git = facts.files.payload.get("hot_spots") or facts.files.payload.get("latest_commits")
    return bool(known.activities or known.work or of_git or _changelog(facts))


def write_changes(facts: RepositoryFacts, paths: PagePaths, plan: WikiPlan, page: PagePlan) -> WikiPage:
    """Write the page."""
    body = PageBody(plan, page)
    body.section("Completed work", _activities(facts))
    body.section("Open work", _work(facts))
    changelog = _changelog(facts)
    if changelog:
        body.section("Latest entries of the changelog", *_entries(facts, body, changelog))
    body.section("Latest commits", _commits(facts))
    body.section("Files that change most often", *_hot_spots(facts, paths, body))
    body.section("Files that change together", *_together(facts, paths, body))
    return body.finish()


def _activities(facts: RepositoryFacts) -> str:
    items = []
    for one in facts.known.activities[:_MOST_ACTIVITIES]:
        when = one.ended_at or one.started_at or one.created_at
        said = f": {short_text(one.summary)}" if one.summary else ""
        items.append(f"{when:%Y-%m-%d}, {one.kind}: **{plain(one.title)}** ({one.outcome}){said}")
    left = len(facts.known.activities) - len(items)
    return (
        bullets(items) + (f"\n\n{counted_things(left, 'more activity', 'more activities')}." if left > 0 else "")
        if items
        else ""
    )


def _work(facts: RepositoryFacts) -> str:
    items = []
    for one in facts.known.work[:_MOST_WORK]:
        said = f": {short_text(one.summary)}" if one.summary else ""
        items.append(f"{one.kind}, {one.status.replace('_', ' ')}, {one.priority}: **{plain(one.title)}**{said}")
    return bullets(items) if items else ""


def _changelog(facts: RepositoryFacts) -> WikiFile | None:
    found = [file for file in facts.files.of_role("changelog") if file.head and "/" not in file.path]
    return min(found, key=lambda file: (-file.last_line, file.path), default=None)


def _entries(facts: RepositoryFacts, body: PageBody, file: WikiFile) -> Iterable[str]:
    told = 0
    for section in facts.sections(file):
        items = [block for block in section.blocks if block.kind == "item"]
        first = section.first_paragraph
        if not items and not first:
            continue
        title = plain(section.title) or "Latest"
        yield f"### {body.source(file, section.lines, title)}"
        if first:
            yield paragraph(cut(words_of(first.text), _ITEM_CHARS))
        yield bullets([shown(cut(words_of(block.text), _ITEM_CHARS)) for block in items[:_MOST_ITEMS]])
        if len(items) > _MOST_ITEMS:
            yield f"{counted_things(len(items) - _MOST_ITEMS, 'more entry', 'more entries')} in {body.file(file)}."
        told += 1
        if told == _MOST_ENTRIES:
            return


def _commits(facts: RepositoryFacts) -> str:
    items = []
    for one in map(_mapping, _listed(facts.files.payload.get("latest_commits"))):
        name = code(str(one.get("commit", ""))[:_COMMIT_CHARS])
        items.append(
            f"{plain(str(one.get('date', '')))}, {name}: {plain(shortened(str(one.get('subject', '')), _ITEM_CHARS))}"
        )
    return bullets(items[:_MOST_COMMITS]) if items else ""


def _hot_spots(facts: RepositoryFacts, paths: PagePaths, body: PageBody) -> Iterable[str]:
    history = _mapping(facts.files.payload.get("changed_together"))
    rows = []
    for one in map(_mapping, _listed(facts.files.payload.get("hot_spots"))):
        path = str(one.get("path", ""))
        day = str(one.get("last_changed", ""))[:10]
        rows.append(
            (_named(facts, paths, body, path), str(one.get("changes", "")), str(one.get("authors", "")), plain(day))
        )
    if rows:
        # Not the commit that was read last: a page that names it would change with every commit of itself.
        if commits := history.get("commits"):
            yield f"In the last {commits} commits:"
        yield table(("File", "Changes", "Authors", "Last"), rows[:_MOST_FILES])


def _together(facts: RepositoryFacts, paths: PagePaths, body: PageBody) -> Iterable[str]:
    history = _mapping(facts.files.payload.get("changed_together"))
    names = _listed(history.get("paths"))
    rows = []
    for one, other, count, last in _listed(history.get("pairs")):
        ends = str(names[one]), str(names[other])
        if all(path in facts.code.of_file for path in ends):
            named = [_named(facts, paths, body, path) for path in ends]
            rows.append((*named, str(count), plain(str(last))))
        if len(rows) == _MOST_PAIRS:
            break
    if rows:
        yield table(("File", "changes with", "Commits", "Last"), rows)


def _named(facts: RepositoryFacts, paths: PagePaths, body: PageBody, path: str) -> str:
    file = facts.files.files.get(path)
    page = paths.of_file(path)
    if page and body.has_page(page):
        return body.to_page(page, code(path))
    return body.file(file) if file else code(path)


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def _listed(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []
