"""Lines about what a space knows: decisions, rules, procedures, each with what it rests on."""

from collections.abc import Sequence

from treering.core.evidence import EvidenceRef
from treering.core.knowledge_payloads import Constraint, Decision, Preference, Procedure
from treering.core.objects import Knowledge
from treering.memories.wiki.repository.facts import RepositoryFacts
from treering.memories.wiki.repository.prose import cut, words_of
from treering.memories.wiki.rules.markup import bullets, code, plain
from treering.memories.wiki.rules.naming import DECISIONS, PagePaths
from treering.memories.wiki.rules.page_body import PageBody, shown

_CHARS = 400
_MOST_CITED = 3
_MOST_STEPS = 12
_MOST_SUBJECTS = 8


def known_lines(facts: RepositoryFacts, body: PageBody, known: Sequence[Knowledge]) -> str:
    """Return a list of what is known, in one line each, that leads to the page with all of it."""
    return bullets([_line(facts, body, one) for one in known]) if known else ""


def told_in_full(facts: RepositoryFacts, paths: PagePaths, body: PageBody, item: Knowledge) -> list[str]:
    """Return the blocks that tell all of one piece of knowledge."""
    payload = item.payload
    said: list[tuple[str, str]] = []
    match payload:
        case Decision():
            said = [("Question", payload.question), ("Decided", payload.outcome), ("Because", payload.rationale)]
            said += [("Instead of", ", ".join(payload.alternatives))]
        case Constraint():
            said = [("Rule", payload.rule), ("Where", payload.scope), ("If it is broken", payload.violation_impact)]
        case Preference():
            said = [("Preferred", payload.statement), ("Where", payload.scope)]
        case Procedure():
            said = [("Before", ", ".join(payload.preconditions)), ("Leads to", payload.expected_outcome)]
        case _:
            pass
    told = {item.title, item.summary, ""}
    lines = [f"**{label}:** {short_text(text)}" for label, text in said if text not in told]
    if about := _subjects(facts, paths, body, item):
        lines.append(f"**About:** {about}")
    steps = [f"{at}. {short_text(step)}" for at, step in enumerate(_steps(item), 1)]
    rests = evidence(facts, body, item)
    status = "It is contested." if item.status == "contested" else ""
    summary = short_text(item.summary) if item.summary else ""
    return [summary, bullets(lines) if lines else "", "\n".join(steps), f"Rests on {rests}." if rests else "", status]


def evidence(facts: RepositoryFacts, body: PageBody, item: Knowledge) -> str:
    """Return links to the lines that something rests on."""
    return ", ".join(one for ref in item.evidence_refs[:_MOST_CITED] if (one := _cited(facts, body, ref)))


def short_text(text: str) -> str:
    """Return stored text as one line of Markdown, cut where it is long."""
    return shown(cut(words_of(text), _CHARS))


def _subjects(facts: RepositoryFacts, paths: PagePaths, body: PageBody, item: Knowledge) -> str:
    """Return the names of the nodes that something is about, each as a link where the wiki has a page of it."""
    told, whole = [], facts.files.payload.get("slug")
    for subject in [one for one in facts.known.subjects_of(item) if one.slug != whole][:_MOST_SUBJECTS]:
        parts, name = facts.parts_of(subject), code(subject.name)
        told.append(body.to_page(paths.parts[parts[0].key], name) if len(parts) == 1 else name)
    return ", ".join(told)


def _line(facts: RepositoryFacts, body: PageBody, item: Knowledge) -> str:
    rests = evidence(facts, body, item)
    said = f"{body.to_page(DECISIONS, plain(item.title))}: {_said(item)}"
    return f"{said} ({rests})" if rests else said


def _steps(item: Knowledge) -> Sequence[str]:
    return item.payload.steps[:_MOST_STEPS] if isinstance(item.payload, Procedure) else ()


def _said(item: Knowledge) -> str:
    payload = item.payload
    match payload:
        case Decision():
            return short_text(payload.outcome or payload.question)
        case Constraint():
            return short_text(payload.rule)
        case Preference():
            return short_text(payload.statement)
        case Procedure():
            return short_text("; ".join(payload.steps[:_MOST_STEPS]))
        case _:
            return short_text(item.summary)


def _cited(facts: RepositoryFacts, body: PageBody, ref: EvidenceRef) -> str:
    file = facts.files.by_id.get(ref.source_id)
    if file is None:
        return ""
    found = facts.segment_lines(file).get(ref.segment_id)
    return body.source(file, found, plain(f"{file.path}, line {found.first}")) if found else ""
