"""Knowledge stated in files: recorded decisions, rules, notes of other memories. No guessing."""

import re
from collections.abc import Iterator, Mapping, Sequence

from treering.extensions.records.memory_notes import noted
from treering.extensions.records.rules import constraints, sets_rules
from treering.ports.adapter import KnowledgeDraft, SegmentDraft
from treering.ports.format import is_decision_record, is_record_template, posix_path
from treering.retrieval.text.decision_records import NOT_IN_FORCE, status_of_record, without_comments
from treering.sources.reading.lines import Heading, MarkupOutline, segment_at
from treering.sources.reading.text import is_markdown, outline_markdown


def statements(path: str, text: str, segments: Sequence[SegmentDraft]) -> tuple[KnowledgeDraft, ...]:
    """Return the statements of the text at `path`, each with the segment that contains it.

    Decisions come from decision records in force, rules (at most 30) from files that set them, such as CONTRIBUTING,
    observations and relations from notes that another memory saved as Markdown.
    """
    if not segments:
        return ()
    if is_markdown(path) and (decision := _decision(path, text, segments)):
        return (decision,)
    if is_markdown(path) and (notes := tuple(_notes_in(path, text, segments))):
        return notes
    return tuple(constraints(path, text, segments)) if sets_rules(path) else ()


def states_by_name(path: str) -> bool:
    """Return whether a file states decisions or rules, by its path."""
    return (is_decision_record(path) and is_markdown(path)) or sets_rules(path)


def withdrawn_as(text: str) -> str:
    """Return the status of a decision record that is not in force, such as `superseded`; else empty."""
    outline = outline_markdown(text)
    status = NOT_IN_FORCE.search(_status(outline, _parts(outline)))
    return status[0].lower() if status else ""


_NUMBER = re.compile(r"^(?:adr[-_ ]*\d{1,5}|n(?=\.)|\d{3,5}|\d{1,5}(?=[.:)]))\s*[.:)\-–—]*\s+", re.IGNORECASE)
_CHOSEN = re.compile(
    r"chosen option:?\s*(?P<outcome>.{1,300}?)(?:,?\s+because(?:\s+[*-]?(?P<why>.*)|\s*$)|$)", re.IGNORECASE | re.DOTALL
)
_PLACEHOLDER = re.compile(r"(?:chosen option:?\s*)?[\"'*]*(?:\{|\[)|the change that we['’]re proposing", re.IGNORECASE)
_REFERS_BACK = re.compile(r"\b(?:it|this|that|they|these|those)\b", re.IGNORECASE)
_LIST_ITEM = re.compile(r"^ {0,3}(?:[*+-]|\d{1,3}[.)])[ \t]+(.{1,400})$", re.MULTILINE)
_NAMED_OPTION = re.compile(r"^\W{0,4}option \w{1,3}\W{1,4}(.{1,400})$", re.IGNORECASE | re.MULTILINE)
_LINK = re.compile(r"!?\[([^\]\n]{0,200})\]\([^)\s]{0,500}\)")
_IMAGE = re.compile(r"!\[[^\]\n]{0,200}\]\([^)\n]{0,500}\)")
_LONGEST = 1_000
_MOST_ALTERNATIVES = 20

_DECISION = ("decision", "decision outcome", "the decision", "decisions", "outcome", "resolution")
_CONTEXT = ("context", "context and problem statement", "problem statement", "problem", "background", "motivation")
_REASONS = ("rationale", "justification", "reasons", "reasoning", "why")
_OPTIONS = (
    *("considered options", "options considered", "alternatives", "alternatives considered", "options"),
    *("considered alternatives", "rejected alternatives", "other options"),
)
_OTHER_PARTS = ("status", "consequences", "positive consequences", "negative consequences")


def _decision(path: str, text: str, segments: Sequence[SegmentDraft]) -> KnowledgeDraft | None:
    outline = outline_markdown(text)
    parts = _parts(outline)
    section = _first(parts, _DECISION)
    if not section or not _is_record(path, parts) or NOT_IN_FORCE.search(_status(outline, parts)):
        return None
    decision, context = _paragraph(section[1]), _first_text(parts, _CONTEXT)
    title = _title(path, outline)
    if not decision or decision.endswith(":") or _is_of_template(title, decision):
        return None
    chosen = _CHOSEN.match(decision)
    outcome = chosen["outcome"].strip('" ') if chosen else decision
    payload = {
        "question": _question(context) or title,
        "outcome": outcome,
        "rationale": (chosen and chosen["why"] and chosen["why"].strip()) or _first_text(parts, _REASONS) or context,
        "alternatives": _alternatives(outline, parts),
    }
    return KnowledgeDraft("decision", title, payload, segment_at(segments, section[0].start), outcome[:300])


def _is_of_template(title: str, decision: str) -> bool:
    """Return whether a decision is a placeholder, or the well-known example of a first record."""
    is_of_first = "architecture decision records" in decision.casefold() and "decision" not in title.casefold()
    return is_of_first or bool(_PLACEHOLDER.match(decision))


def _is_record(path: str, parts: Mapping[str, object]) -> bool:
    if is_record_template(path):
        return False
    return is_decision_record(path) or len(parts.keys() & {*_CONTEXT, *_OTHER_PARTS}) >= 2


def _bodies(outline: MarkupOutline) -> Iterator[tuple[Heading, str]]:
    """Yield each heading with its own text, in reverse, so that the first of two with one name counts."""
    ends = [*(heading.start for heading in outline.headings[1:]), len(outline.lines)]
    for heading, end in reversed(list(zip(outline.headings, ends, strict=False))):
        yield heading, without_comments("\n".join(outline.lines[heading.body : end])).strip()


def _parts(outline: MarkupOutline) -> dict[str, tuple[Heading, str]]:
    """Return by name the sections of a record, with their texts."""
    return {_key(heading): (heading, body) for heading, body in _bodies(outline)}


def _status(outline: MarkupOutline, parts: Mapping[str, tuple[Heading, str]]) -> str:
    _, section = parts.get("status", (None, ""))
    return status_of_record(section, "\n".join(outline.lines))


def _key(heading: Heading) -> str:
    return _NUMBER.sub("", heading.name).strip(" :").casefold()


def _first(parts: Mapping[str, tuple[Heading, str]], names: Sequence[str]) -> tuple[Heading, str] | None:
    return next((parts[name] for name in names if name in parts), None)


def _first_text(parts: Mapping[str, tuple[Heading, str]], names: Sequence[str]) -> str:
    section = _first(parts, names)
    return _paragraph(section[1]) if section else ""


def _paragraph(body: str) -> str:
    """Return the first paragraph in one line, with a list it announces, without images."""
    blocks = [block for block in re.split(r"\n[ \t]*\n", _IMAGE.sub("", body)) if block.strip()]
    taken = blocks[:2] if blocks and blocks[0].rstrip().endswith((":", "because")) else blocks[:1]
    return _LINK.sub(r"\1", " ".join(" ".join(taken).split())).removeprefix("- ").removeprefix("* ")[:_LONGEST]


def _title(path: str, outline: MarkupOutline) -> str:
    name = next((heading.name for heading in outline.headings if heading.level == 1), "")
    if not name or name.casefold() in _DECISION:
        name = posix_path(path).stem.replace("-", " ").replace("_", " ")
    return _NUMBER.sub("", name).strip() or name


def _question(context: str) -> str:
    questions = [match.strip() for match in re.findall(r"(?:^|(?<=[.!?:] ))[^.!?:]{8,300}\?", context)]
    return next((question for question in reversed(questions) if not _REFERS_BACK.search(question)), "")


def _alternatives(outline: MarkupOutline, parts: Mapping[str, tuple[Heading, str]]) -> list[str]:
    """Return the considered options: those labeled so, else the items of their section, else its sub-headings."""
    section = _first(parts, _OPTIONS)
    if not section:
        return []
    listed = next((named for of in (_NAMED_OPTION, _LIST_ITEM) if (named := of.findall(section[1]))), [])
    items = listed or list(_headings_below(outline, section[0]))
    return [_LINK.sub(r"\1", item).strip()[:200] for item in items[:_MOST_ALTERNATIVES]]


def _headings_below(outline: MarkupOutline, above: Heading) -> Iterator[str]:
    for heading in outline.headings[outline.headings.index(above) + 1 :]:
        if heading.level <= above.level:
            return
        yield heading.name


def _notes_in(path: str, text: str, segments: Sequence[SegmentDraft]) -> Iterator[KnowledgeDraft]:
    for one in noted(path, text):
        yield KnowledgeDraft(one.kind, one.text[:120], one.payload, segment_at(segments, one.line), one.text[:300])
