"""The page of decisions: recorded decisions, rules, procedures and preferences, and decision records in files."""

from treering.extensions.wiki.repository.facts import RepositoryFacts
from treering.extensions.wiki.rules.knowledge import knowledge_blocks
from treering.extensions.wiki.rules.markdown import bullets, plain, remainder, short_text
from treering.extensions.wiki.rules.page_body import PageBody
from treering.extensions.wiki.rules.page_paths import document_title
from treering.ports.format import is_decision_record

MAX_RECORDS = 100
_HEADINGS = {
    "decision": "Decisions",
    "constraint": "Rules",
    "procedure": "Procedures",
    "preference": "Preferences",
}


def has_decisions(facts: RepositoryFacts) -> bool:
    """Return whether the page would have content."""
    return bool(facts.known.stated) or any(map(is_decision_record, facts.files.files))


def write_decisions(body: PageBody) -> None:
    """Write the page of decisions."""
    for kind, heading in _HEADINGS.items():
        blocks: list[str] = []
        for one in body.facts.known.stated:
            if one.kind == kind:
                blocks += [f"### {short_text(one.title)}", *knowledge_blocks(body, one)]
        body.section(heading, *blocks)
    body.section("Recorded in documents", *_records(body))


def _records(body: PageBody) -> tuple[str, str]:
    files = [file for path, file in body.facts.files.files.items() if is_decision_record(path) and file.head]
    items = []
    for file in files[:MAX_RECORDS]:
        label = plain(document_title(file))
        page = body.to_page(body.paths.documents.get(file.path, ""), label)
        items.append(page if page != label else body.source(file.head, label))
    return bullets(items), remainder(len(files) - len(items), "more record")
