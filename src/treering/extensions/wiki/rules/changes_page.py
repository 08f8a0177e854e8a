"""The page of recent changes: recorded work, the changelog, commits, and files that change often or together."""

from collections.abc import Iterable

from treering.core.counting import counted_things
from treering.core.patch import shortened
from treering.extensions.wiki.repository.facts import RepositoryFacts
from treering.extensions.wiki.repository.files import WikiFile, listed, mapping
from treering.extensions.wiki.repository.known_objects import when_done
from treering.extensions.wiki.repository.prose import cut, words_of
from treering.extensions.wiki.rules.markdown import bullets, code, paragraph, plain, remainder, short_text, shown, table
from treering.extensions.wiki.rules.page_body import PageBody

MAX_ACTIVITIES = 30
MAX_WORK_ITEMS = 40
MAX_RELEASES = 2
MAX_RELEASE_ITEMS = 25
MAX_ITEM_CHARS = 240
MAX_FILES = 20
MAX_PAIRS = 20
MAX_COMMITS = 20
COMMIT_CHARS = 10


def has_changes(facts: RepositoryFacts) -> bool:
    """Return whether the page would have content."""
    known = facts.known
    of_git = facts.files.payload.get("hot_spots") or facts.files.payload.get("latest_commits")
    return bool(known.activities or known.work or of_git or _changelog(facts))


def write_changes(body: PageBody) -> None:
    """Write the page of recent changes."""
    body.section("Completed work", *_activities(body))
    body.section("Open work", _work(body))
    if changelog := _changelog(body.facts):
        body.section("Latest entries of the changelog", *_releases(body, changelog))
    body.section("Latest commits", _commits(body))
    body.section("Files that change most often", *_hot_spots(body))
    body.section("Files that change together", _together(body))


def _activities(body: PageBody) -> tuple[str, str]:
    items = [
        f"{when_done(one):%Y-%m-%d}, {one.kind}: **{plain(one.title)}** ({one.outcome}){_after_colon(one.summary)}"
        for one in body.facts.known.activities[:MAX_ACTIVITIES]
    ]
    left = len(body.facts.known.activities) - len(items)
    return bullets(items), remainder(left, "more activity")


def _work(body: PageBody) -> str:
    return bullets(
        [
            f"{one.kind}, {one.status.replace('_', ' ')}, {one.priority}: **{plain(one.title)}**"
            f"{_after_colon(one.summary)}"
            for one in body.facts.known.work[:MAX_WORK_ITEMS]
        ]
    )


def _after_colon(summary: str) -> str:
    return f": {short_text(summary)}" if summary else ""


def _changelog(facts: RepositoryFacts) -> WikiFile | None:
    files = [file for file in facts.files.of_role("changelog") if file.head and "/" not in file.path]
    return min(files, key=lambda file: (-file.last_line, file.path), default=None)


def _releases(body: PageBody, file: WikiFile) -> Iterable[str]:
    written = 0
    for section in body.facts.sections(file):
        items = [block for block in section.blocks if block.kind == "item"]
        first = section.first_paragraph
        if not items and not first:
            continue
        below_title = len(section.headings) > 1 and section.headings[0] == file.title
        title = " – ".join(map(plain, section.headings[below_title:]))
        yield f"### {body.source(section.lines, title or 'Latest')}"
        if first:
            yield paragraph(cut(words_of(first.text), MAX_ITEM_CHARS))
        yield bullets([shown(cut(words_of(block.text), MAX_ITEM_CHARS)) for block in items[:MAX_RELEASE_ITEMS]])
        if len(items) > MAX_RELEASE_ITEMS:
            yield f"{counted_things(len(items) - MAX_RELEASE_ITEMS, 'more entry')} in {body.file(file)}."
        written += 1
        if written == MAX_RELEASES:
            return


def _commits(body: PageBody) -> str:
    items = []
    for one in map(mapping, listed(body.facts.files.payload.get("latest_commits"))):
        commit = code(str(one.get("commit", ""))[:COMMIT_CHARS])
        subject = plain(shortened(str(one.get("subject", "")), MAX_ITEM_CHARS))
        items.append(f"{plain(str(one.get('date', '')))}, {commit}: {subject}")
    return bullets(items[:MAX_COMMITS])


def _hot_spots(body: PageBody) -> Iterable[str]:
    rows = []
    for one in map(mapping, listed(body.facts.files.payload.get("hot_spots"))):
        path = _linked(body, str(one.get("path", "")))
        day = plain(str(one.get("last_changed", ""))[:10])
        rows.append((path, str(one.get("changes", "")), str(one.get("authors", "")), day))
    # Not the last commit read: the page would change with every commit, even one of the wiki itself.
    commits = mapping(body.facts.files.payload.get("changed_together")).get("commits")
    yield f"In the last {commits} commits:" if rows and commits else ""
    yield table(("File", "Changes", "Authors", "Last"), rows[:MAX_FILES])


def _together(body: PageBody) -> str:
    history = mapping(body.facts.files.payload.get("changed_together"))
    names = listed(history.get("paths"))
    rows: list[tuple[str, ...]] = []
    for one, other, count, last in listed(history.get("pairs")):
        paths = str(names[one]), str(names[other])
        if len(rows) < MAX_PAIRS and all(path in body.facts.code.of_file for path in paths):
            rows.append((*(_linked(body, path) for path in paths), str(count), plain(str(last))))
    return table(("File", "changes with", "Commits", "Last"), rows)


def _linked(body: PageBody, path: str) -> str:
    file = body.facts.files.files.get(path)
    page = body.paths.of_file(path)
    if page and body.has_page(page):
        return body.to_page(page, code(path))
    return body.file(file) if file else code(path)
