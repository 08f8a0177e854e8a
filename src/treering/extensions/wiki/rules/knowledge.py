"""Knowledge of the space on pages: decisions, rules, preferences and procedures, with their evidence."""

from collections.abc import Sequence

from treering.core.evidence import EvidenceRef
from treering.core.objects import Constraint, Decision, Knowledge, Preference, Procedure
from treering.extensions.wiki.rules.markdown import bullets, code, plain, short_text
from treering.extensions.wiki.rules.page_body import PageBody
from treering.extensions.wiki.rules.page_paths import DECISIONS

MAX_CITED_LINES = 3
MAX_STEPS = 12
MAX_SUBJECTS = 8


def knowledge_list(body: PageBody, known: Sequence[Knowledge]) -> str:
    """Return knowledge as a list, one line each, with a link to the page of decisions."""
    return bullets([_line(body, one) for one in known])


def knowledge_blocks(body: PageBody, item: Knowledge) -> list[str]:
    """Return the blocks with all details of one entry."""
    payload = item.payload
    fields: list[tuple[str, str]] = []
    match payload:
        case Decision():
            question = "" if payload.is_replacement else payload.question
            fields = [("Question", question), ("Decided", payload.outcome), ("Because", payload.rationale)]
            fields += [("Instead of", ", ".join(payload.alternatives))]
        case Constraint():
            fields = [("Rule", payload.rule), ("Where", payload.scope), ("If violated", payload.violation_impact)]
        case Preference():
            fields = [("Preferred", payload.statement), ("Where", payload.scope)]
        case Procedure():
            fields = [("Before", ", ".join(payload.preconditions)), ("Leads to", payload.expected_outcome)]
        case _:
            pass
    repeated = {item.title, item.summary, ""}
    lines = [f"**{label}:** {short_text(text)}" for label, text in fields if text not in repeated]
    if about := _subjects(body, item):
        lines.append(f"**About:** {about}")
    steps = payload.steps[:MAX_STEPS] if isinstance(payload, Procedure) else ()
    numbered = "\n".join(f"{at}. {short_text(step)}" for at, step in enumerate(steps, 1))
    evidence = _evidence(body, item)
    status = "Contested: another statement contradicts it." if item.status == "contested" else ""
    return [short_text(item.summary), bullets(lines), numbered, f"Based on {evidence}." if evidence else "", status]


def _evidence(body: PageBody, item: Knowledge) -> str:
    return ", ".join(one for ref in item.evidence_refs[:MAX_CITED_LINES] if (one := _cited(body, ref)))


def _subjects(body: PageBody, item: Knowledge) -> str:
    """Return the names of the nodes that an entry is about, linked to their pages."""
    facts, names = body.facts, []
    subjects = [one for one in facts.known.subjects_of(item) if one.slug != facts.files.payload.get("slug")]
    for subject in subjects[:MAX_SUBJECTS]:
        parts, name = facts.parts_of(subject), code(subject.name)
        names.append(body.to_page(body.paths.parts[parts[0].key], name) if len(parts) == 1 else name)
    return ", ".join(names)


def _line(body: PageBody, item: Knowledge) -> str:
    evidence, statement = _evidence(body, item), _statement(item)
    is_repeated = statement.startswith(item.title)  # a long statement has a shortened title
    line = body.to_page(DECISIONS, short_text(statement) if is_repeated else plain(item.title))
    line += " (contested)" if item.status == "contested" else ""
    line += "" if is_repeated or not statement else f": {short_text(statement)}"
    return f"{line} ({evidence})" if evidence else line


def _statement(item: Knowledge) -> str:
    match item.payload:
        case Decision(outcome=outcome, question=question):
            return outcome or question
        case Constraint(rule=statement) | Preference(statement=statement):
            return statement
        case Procedure(steps=steps):
            return "; ".join(steps[:MAX_STEPS])
        case _:
            return item.summary


def _cited(body: PageBody, ref: EvidenceRef) -> str:
    file = body.facts.files.by_id.get(ref.source_id)
    text = body.facts.text(file) if file else None
    lines = text.cite_evidence(ref) if text else None
    return body.source(lines, plain(f"{lines.path}, {lines.numbers}")) if lines else ""
