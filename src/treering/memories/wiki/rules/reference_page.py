"""Tables of everything public, by module."""

from treering.memories.wiki.pages import PagePlan, WikiPage, WikiPlan
from treering.memories.wiki.repository.facts import RepositoryFacts
from treering.memories.wiki.repository.packages import CodePart, part_title
from treering.memories.wiki.rules.markup import code, table
from treering.memories.wiki.rules.module_page import entry_row
from treering.memories.wiki.rules.naming import PagePaths
from treering.memories.wiki.rules.page_body import PageBody, counted

MOST_ROWS = 600
"""Rows of all tables together: a longer page is read by nobody."""
_MOST_OF_A_FILE = 40


def write_reference(facts: RepositoryFacts, paths: PagePaths, plan: WikiPlan, page: PagePlan) -> WikiPage:
    """Write the page: the most important modules first, as far as there is room."""
    body = PageBody(plan, page)
    room, left = MOST_ROWS, 0
    for part in facts.ranked_parts:
        for path in part.files:
            file = facts.files.files[path]
            top = [entry for entry in file.public if not entry.owner]
            if not top:
                continue
            if room <= 0:
                left += 1
                continue
            kept = top[: min(_MOST_OF_A_FILE, room)]
            room -= len(kept)
            rows = [(*entry_row(body, file, entry), entry.kind) for entry in kept]
            body.add(f"## {_heading(facts, paths, body, part, path)}")
            body.add(table(("Name", "What it does", "Kind"), rows))
            if len(top) > len(kept):
                body.add(f"{counted(len(top) - len(kept), 'more definition')} in {body.file(file)}.")
    if left:
        body.add(f"{counted(left, 'less central file')} left out here; see the pages of the modules.")
    return body.finish()


def _heading(facts: RepositoryFacts, paths: PagePaths, body: PageBody, part: CodePart, path: str) -> str:
    alone = len(part.files) == 1
    return body.to_page(paths.parts[part.key], code(part.title if alone else part_title(facts.files, path)))
