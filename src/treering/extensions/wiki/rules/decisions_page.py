"""The page of decisions: recorded decisions, rules, procedures and preferences, and decision records in files."""

from collections.abc import Sequence

from treering.core.objects import Knowledge
from treering.extensions.wiki.repository.facts import RepositoryFacts
from treering.extensions.wiki.rules.knowledge import knowledge_blocks, knowledge_list
from treering.extensions.wiki.rules.markdown import bullets, plain, remainder, short_text
from treering.extensions.wiki.rules.page_body import PageBody
from treering.extensions.wiki.rules.page_paths import document_title
from treering.ports.format import is_decision_record

MAX_RECORDS = 100
MAX_LISTED = 30
"""The maximum number of entries in each list of knowledge that is not in force."""
_HEADINGS = {
    "decision": "Decisions",
    "constraint": "Rules",
    "procedure": "Procedures",
    "preference": "Preferences",
}


def has_decisions(facts: RepositoryFacts) -> bool:
    """Return whether the page would have content."""
    known = facts.known
    recorded = known.stated or known.in_files or known.proposed or known.stale
    return bool(recorded) or any(map(is_decision_record, facts.files.files))


def write_decisions(body: PageBody) -> None:
    """Write the page of decisions."""
    for kind, heading in _HEADINGS.items():
        blocks: list[str] = []
        for one in body.facts.known.stated:
            if one.kind == kind:
                blocks += [f"### {short_text(one.title)}", *knowledge_blocks(body, one)]
        body.section(heading, *blocks)
    known = body.facts.known
    body.section("Stated in files, not confirmed", *_listed(body, known.in_files))
    body.section("Proposed, not confirmed", *_listed(body, known.proposed))
    body.section("Stale: the evidence was changed or deleted", *_listed(body, known.stale))
    body.section("Recorded in documents", *_records(body))


def _listed(body: PageBody, known: Sequence[Knowledge]) -> tuple[str, str]:
    return knowledge_list(body, known[:MAX_LISTED]), remainder(len(known) - MAX_LISTED, "more entry")


def _records(body: PageBody) -> tuple[str, str]:
    files = [file for path, file in body.facts.files.files.items() if is_decision_record(path) and file.head]
    items = []
    for file in files[:MAX_RECORDS]:
        label = plain(document_title(file))
        page = body.to_page(body.paths.documents.get(file.path, ""), label)
        items.append(page if page != label else body.source(file.head, label))
    return bullets(items), remainder(len(files) - len(items), "more record")
