"""The page of what the space knows beside the files: decisions, rules, procedures and preferences."""

import re
from collections.abc import Iterable

from treering.memories.wiki.pages import PagePlan, WikiPage, WikiPlan
from treering.memories.wiki.repository.facts import RepositoryFacts
from treering.memories.wiki.rules.known_lines import told_in_full
from treering.memories.wiki.rules.markup import bullets, plain
from treering.memories.wiki.rules.naming import PagePaths, document_title
from treering.memories.wiki.rules.page_body import PageBody, counted

_HEADINGS = {
    "decision": "Decisions",
    "constraint": "Rules",
    "procedure": "Procedures",
    "preference": "Preferences",
}
_RECORD = re.compile(r"(?:^|/)(?:adrs?|decisions|rfcs?|peps?|proposals)/[^/]+\.(?:md|rst|txt|adoc)$", re.IGNORECASE)
_MOST_RECORDS = 100


def has_decisions(facts: RepositoryFacts) -> bool:
    """Tell whether there is anything to say."""
    return bool(facts.known.stated) or any(_RECORD.search(path) for path in facts.files.files)


def write_decisions(facts: RepositoryFacts, paths: PagePaths, plan: WikiPlan, page: PagePlan) -> WikiPage:
    """Write the page."""
    body = PageBody(plan, page)
    for kind, heading in _HEADINGS.items():
        known = [one for one in facts.known.stated if one.kind == kind]
        if known:
            body.add(f"## {heading}")
        for one in known:
            body.add(f"### {plain(one.title)}", *told_in_full(facts, paths, body, one))
    body.section("Recorded in documents", *_records(facts, paths, body))
    return body.finish()


def _records(facts: RepositoryFacts, paths: PagePaths, body: PageBody) -> Iterable[str]:
    found = [file for path, file in facts.files.files.items() if _RECORD.search(path) and file.head]
    items = []
    for file in found[:_MOST_RECORDS]:
        label = plain(document_title(file))
        page = body.to_page(paths.documents.get(file.path, ""), label)
        items.append(page if page != label else body.source(file, file.head, label))
    if items:
        yield bullets(items)
    if len(found) > len(items):
        yield f"{counted(len(found) - len(items), 'more record')}."
