"""Knowledge a file itself states: recorded decisions, rules of the house, facts of manifests. No guessing."""

import re
from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice

from treering.core.evidence import Lines
from treering.ports.adapter import KnowledgeDraft, SegmentDraft
from treering.ports.format import posix_path
from treering.sources.manifests import MAX_VALUE_CHARS, is_of_helper, read_manifest
from treering.sources.memory import noted
from treering.sources.reading import lines as restructured
from treering.sources.reading.lines import Heading, MarkupOutline
from treering.sources.reading.text import Paragraph, is_markdown, outline_markdown, paragraphs


def statements(path: str, text: str, segments: Sequence[SegmentDraft]) -> tuple[KnowledgeDraft, ...]:
    """Return what the text at `path` states, each pointing at the one of its `segments` that says so.

    Decisions come from decision records that are in force, rules (at most 30) from files that are there to
    set them, such as CONTRIBUTING, facts from package manifests, observations and relations from notes that
    another memory keeps as Markdown.
    """
    if not segments:
        return ()
    if is_manifest(path):
        return () if is_of_helper(path) else tuple(_facts(path, text, segments))
    if is_markdown(path) and (found := _decision(path, text, segments)):
        return (found,)
    if is_markdown(path) and (notes := tuple(_noted(path, text, segments))):
        return notes
    return tuple(_constraints(path, text, segments)) if _sets_rules(path) else ()


def states_by_name(path: str) -> bool:
    """Tell by a file's path whether it is there to state decisions or rules."""
    return _is_record_path(path) or _sets_rules(path)


def withdrawn_as(text: str) -> str:
    """Return how a decision record says that it is not in force, such as `superseded`; empty where it does not."""
    outline = outline_markdown(text)
    said = _NOT_IN_FORCE.search(
        _status(outline, {_key(heading): (heading, body) for heading, body in _bodies(outline)})
    )
    return said[0].lower() if said else ""


# Decisions

_RECORD_PATH = re.compile(
    r"(?:^|/)(?:adrs?|decisions?|decision-records?|architecture[-_]decisions?|architecture-decision-records?)/[^/]+$"
    r"|(?:^|/)adr[-_]?\d[^/]*$",
    re.IGNORECASE,
)
_NO_RECORD = re.compile(r"(?:readme|index|template|adr-template|(?<!0)0+-template)[^/]*$", re.IGNORECASE)
_NUMBER = re.compile(r"^(?:adr[-_ ]*\d{1,5}|\d{3,5}|\d{1,5}(?=[.:)]))\s*[.:)\-–—]*\s+", re.IGNORECASE)
_STATUS_LINE = re.compile(r"^[\s*_>+-]{0,8}status[*_]{0,3}\s{0,3}:[*_\s]{0,4}(.{1,200})$", re.IGNORECASE | re.MULTILINE)
_NOT_IN_FORCE = re.compile(
    r"\b(?:superseded|rejected|deprecated|withdrawn|obsolete|declined|abandoned|draft|proposed|pending)\b",
    re.IGNORECASE,
)
_CHOSEN = re.compile(r"chosen option:?\s*(?P<outcome>.{1,300}?),?\s+because\s+(?P<why>.*)", re.IGNORECASE | re.DOTALL)
_LIST_ITEM = re.compile(r"^ {0,3}(?:[*+-]|\d{1,3}[.)])[ \t]+(.{1,400})$", re.MULTILINE)
_LINK = re.compile(r"!?\[([^\]\n]{0,200})\]\([^)\s]{0,500}\)")
_COMMENT = re.compile(r"<!--(?:.*?-->|.*)", re.DOTALL)  # one that is never closed runs to the end, once
_HEAD_LINES = 30
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
    parts = {_key(heading): (heading, body) for heading, body in _bodies(outline)}
    found = _first(parts, _DECISION)
    if not found or not _is_record(path, parts) or _NOT_IN_FORCE.search(_status(outline, parts)):
        return None
    decision, context = _paragraph(found[1]), _first_text(parts, _CONTEXT)
    if not decision:
        return None
    chosen = _CHOSEN.match(decision)
    title = _title(path, outline)
    outcome = chosen["outcome"].strip('" ') if chosen else decision
    payload = {
        "question": _question(context) or title,
        "outcome": outcome,
        "rationale": chosen["why"] if chosen else _first_text(parts, _REASONS) or context,
        "alternatives": _alternatives(outline, parts),
    }
    return KnowledgeDraft("decision", title, payload, _segment_at(segments, found[0].start), outcome[:300])


def _is_record(path: str, parts: Mapping[str, object]) -> bool:
    if _NO_RECORD.search(posix_path(path).name):
        return False
    return _is_record_path(path) or len(parts.keys() & {*_CONTEXT, *_OTHER_PARTS}) >= 2


def _is_record_path(path: str) -> bool:
    return bool(_RECORD_PATH.search(path)) and is_markdown(path) and not _NO_RECORD.search(posix_path(path).name)


def _bodies(outline: MarkupOutline) -> Iterator[tuple[Heading, str]]:
    """Return each heading with its own text, in reverse: of two of one name the first counts."""
    ends = [*(heading.start for heading in outline.headings[1:]), len(outline.lines)]
    for heading, end in reversed(list(zip(outline.headings, ends, strict=False))):
        yield heading, _COMMENT.sub("", "\n".join(outline.lines[heading.body : end])).strip()


def _key(heading: Heading) -> str:
    return _NUMBER.sub("", heading.name).strip(" :").casefold()


def _first(parts: Mapping[str, tuple[Heading, str]], names: Sequence[str]) -> tuple[Heading, str] | None:
    return next((parts[name] for name in names if name in parts), None)


def _first_text(parts: Mapping[str, tuple[Heading, str]], names: Sequence[str]) -> str:
    found = _first(parts, names)
    return _paragraph(found[1]) if found else ""


def _paragraph(body: str) -> str:
    """Return the first paragraph in one line, with the list it announces where it ends in a colon."""
    blocks = [block for block in re.split(r"\n[ \t]*\n", body) if block.strip()]
    taken = blocks[:2] if blocks and blocks[0].rstrip().endswith(":") else blocks[:1]
    return _LINK.sub(r"\1", " ".join(" ".join(taken).split()))[:_LONGEST]


def _status(outline: MarkupOutline, parts: Mapping[str, tuple[Heading, str]]) -> str:
    """Return what the record says of its status: in its section, else on a `Status:` line or in front matter."""
    if "status" in parts:
        return parts["status"][1][:_LONGEST]
    line = _STATUS_LINE.search("\n".join(outline.lines[:_HEAD_LINES]))
    return line[1] if line else ""


def _title(path: str, outline: MarkupOutline) -> str:
    name = next((heading.name for heading in outline.headings if heading.level == 1), "")
    if not name or name.casefold() in _DECISION:
        name = posix_path(path).stem.replace("-", " ").replace("_", " ")
    return _NUMBER.sub("", name).strip() or name


def _question(context: str) -> str:
    asked = re.findall(r"(?:^|(?<=[.!?:] ))[^.!?:]{8,300}\?", context)
    return asked[-1].strip() if asked else ""


def _alternatives(outline: MarkupOutline, parts: Mapping[str, tuple[Heading, str]]) -> list[str]:
    """List the options weighed: the items of their section, else the headings below it."""
    found = _first(parts, _OPTIONS)
    if not found:
        return []
    items = [match[1] for match in _LIST_ITEM.finditer(found[1])] or list(_headings_below(outline, found[0]))
    return [_LINK.sub(r"\1", item).strip()[:200] for item in items[:_MOST_ALTERNATIVES]]


def _headings_below(outline: MarkupOutline, above: Heading) -> Iterator[str]:
    for heading in outline.headings[outline.headings.index(above) + 1 :]:
        if heading.level <= above.level:
            return
        yield heading.name


# Rules

_RULE_FILE = re.compile(
    r"(?:contributing|code_?-?of_?-?style|style|style_?-?guide|coding_?-?(?:style|standards|guidelines)|conventions"
    r"|agents|claude|gemini|copilot-instructions|hacking)(?:\.(?:md|markdown|rst|txt))?",
    re.IGNORECASE,
)
_RULE_PATH = re.compile(
    r"(?:^|/)(?:\.(?:cursor|windsurf|clinerules|claude|continue)/(?:rules/)?[^/]+\.mdc?"
    r"|\.github/instructions/[^/]+\.md|\.(?:cursorrules|windsurfrules|clinerules))$",
    re.IGNORECASE,
)
"""Where editors and agents keep rules besides."""
_GLOBS = re.compile(r"^(?:globs|applyTo|paths):[ \t]*[\"']?([^\n\"']{1,300})", re.MULTILINE)
# What commands: `must` and its like anywhere, `do not` and `never` only where they open a clause
# ("issues that do not build" commands nothing).
_RULE = re.compile(
    r"\b(?:must|shall|mandatory|(?:is|are) not (?:allowed|permitted|accepted))\b"
    r"|(?:^[\W_]{0,4}|[.;:,–—-]\s[*_]{0,2}|\bplease\s)(?:never|always|do not|don['’]t)\b",
    re.IGNORECASE,
)
_NO_RULE = re.compile(
    r"\b(?:not?|none|never|isn['’]t|aren['’]t)\s(?:\w+\s){0,6}mandatory\b|[?:]\s*$|\b(?:we|i) must\b"
    r"|\bmust have been\b|\bmust (?:first |also |then )?(?:be |have )?install|\b(?:may|might|can) require\b"
    r"|\b(?:don['’]t|do not) (?:worry|hesitate|be afraid|need|have to|know|despair|wait|feel)\b",
    re.IGNORECASE,
)
_TORN = re.compile(
    r"[\W_]*(?:it|they|this|these|that|those|he|she|however|so|but|then|instead|also|otherwise|therefore|why|(?:to|if|when|after"
    r"|before|in order to)\b(?!.*,.*\b(?:never|always|do not|don['’]t)\b).*,?)\b",
    re.IGNORECASE,
)
"""How a sentence begins that needs the one before it, or that is a step of instructions."""
_MANNERS = re.compile(
    r"\b(?:conduct|manners?|polite\w*|respectful\w*|friendly|unpleasant|poor behaviou?r|harass\w*|disagree\w*)\b",
    re.IGNORECASE,
)
_VERB_FIRST = re.compile(r"(?:never|always|do not|don['’]t)\b", re.IGNORECASE)
_SHORT_RULE = 90
_NO_SUBJECT = re.compile(
    r"(?:\w+ )?(?:rules?|guidelines?|guides?|conventions?|style|contributing|notes?|general|overview|instructions)",
    re.IGNORECASE,
)
"""Headings that name no subject."""
_NESTED = re.compile(r"\n\s*(?:[-*+]|\d{1,3}[.)])\s")
_SENTENCE_END = re.compile(r"(?<=[.!?])[*_`\")]{0,3}\s+(?=[A-Z`*_\"'(\[])")
_IMPACT = re.compile(r"(?:otherwise|violat|failing to|failure to)", re.IGNORECASE)
_MOST_RULES = 30
_SHORTEST_RULE, _LONGEST_RULE = 15, 400
_WHOLE = ("", ".", ".github", "docs", "doc")


def _sets_rules(path: str) -> bool:
    return bool(_RULE_FILE.fullmatch(posix_path(path).name) or _RULE_PATH.search(path))


def _constraints(path: str, text: str, segments: Sequence[SegmentDraft]) -> Iterator[KnowledgeDraft]:
    folder = str(posix_path(path).parent)
    scope = _globs(text) or "repository" if _RULE_PATH.search(path) or folder in _WHOLE else folder
    rules = list(dict.fromkeys(_rules(path, text)))[:_MOST_RULES]
    for rule, impact, line in rules:
        at = _segment_at(segments, line)
        payload = {"rule": rule, "scope": scope, "violation_impact": impact}
        yield KnowledgeDraft("constraint", _titled(rule, segments[at].heading), payload, at, segments[at].heading)


def _titled(rule: str, heading: str) -> str:
    """Return the title of a rule: of a short one that begins with a verb also the heading, which names its subject."""
    subject = heading.rpartition(" > ")[2]
    names_it = bool(subject) and not _NO_SUBJECT.fullmatch(subject)
    needs_subject = len(rule) < _SHORT_RULE and _VERB_FIRST.match(rule) and names_it
    return (f"{subject}: {rule}" if needs_subject else rule)[:120]


def _globs(text: str) -> str:
    """Return for which files a rule says it is, in its front matter; empty where it does not say."""
    matter = text.split("\n---", 1)[0] if text.startswith("---") else ""
    found = _GLOBS.search(matter)
    return found[1].strip() if found else ""


def _rules(path: str, text: str) -> Iterator[tuple[str, str, int]]:
    """Return each sentence that commands or forbids, what the next one says of breaking it, and the line."""
    for paragraph in paragraphs(text) if is_markdown(path) else _plain_paragraphs(text):
        own = _NESTED.split(paragraph.text, maxsplit=1)[0]
        sentences = _SENTENCE_END.split(_LINK.sub(r"\1", " ".join(own.replace("**", "").split())))
        for sentence, following in zip(sentences, [*sentences[1:], ""], strict=True):
            if _is_rule(sentence):
                yield sentence.strip("*_- "), following if _IMPACT.match(following) else "", paragraph.line


def _is_rule(sentence: str) -> bool:
    """Return whether a sentence commands or forbids something of the work, and can be understood by itself."""
    return (
        _SHORTEST_RULE <= len(sentence) <= _LONGEST_RULE
        and not sentence.startswith(("#", "//", "(", "|", ">"))
        and bool(_RULE.search(sentence))
        and not _NO_RULE.search(sentence)
        and not _TORN.match(sentence)
        and not _MANNERS.search(sentence)
    )


def _plain_paragraphs(text: str) -> Iterator[Paragraph]:
    outline = restructured.restructured_outline(text, indented_blocks=True)
    for start, end in zip(outline.cuts, [*outline.cuts[1:], len(outline.lines)], strict=True):
        yield Paragraph(" ".join(outline.lines[start:end]).strip(" *-"), start)


# Facts


def _facts(path: str, text: str, segments: Sequence[SegmentDraft]) -> Iterator[KnowledgeDraft]:
    lines = text.split("\n")
    for fact in manifest_facts(path, text):
        line = next((at for at, line in enumerate(lines) if all(word in line for word in fact.spelled)), 0)
        payload = {"subject": fact.subject, "predicate": fact.predicate, "value": fact.value}
        title = f"{fact.subject}: {fact.predicate} {fact.value}"
        yield KnowledgeDraft("fact", title, payload, _segment_at(segments, line), confidence=0.9)


# Notes of another memory


def _noted(path: str, text: str, segments: Sequence[SegmentDraft]) -> Iterator[KnowledgeDraft]:
    for one in noted(path, text):
        yield KnowledgeDraft(one.kind, one.text[:120], one.payload, _segment_at(segments, one.line), one.text[:300])


def _segment_at(segments: Sequence[SegmentDraft], line: int) -> int:
    """Find the segment that holds a line (from 0), else the one before it."""
    starts = [segment.locator.start for segment in segments if isinstance(segment.locator, Lines)]
    return max(bisect_right(starts, line + 1) - 1, 0)


# What a package's manifest states about it: name, version, licence, what it runs on and depends on.

_FACT_MANIFESTS = frozenset({"pyproject.toml", "package.json", "Cargo.toml", "go.mod"})
_MAX_DEPENDENCIES = 60
_ANY = "any version"


@dataclass(frozen=True, slots=True)
class ManifestFact:
    """One attribute a manifest gives its package. The line that says so holds all words of `spelled`."""

    subject: str
    predicate: str
    value: str
    spelled: tuple[str, ...]


def is_manifest(path: str) -> bool:
    """Return whether `manifest_facts` reads a file, by its name."""
    return posix_path(path).name in _FACT_MANIFESTS


def manifest_facts(path: str, text: str) -> Iterator[ManifestFact]:
    """Read the facts of a `pyproject.toml`, `package.json`, `Cargo.toml` or `go.mod`; none if it is broken.

    Direct dependencies (at most 60) are one fact each: `depends on NAME` with the versions allowed.
    """
    package = read_manifest(path, text)
    if not package.name:
        return
    needs = {f"requires {name}": versions for name, versions in package.requires.items()}
    yield ManifestFact(path, "package name", package.name, (package.name,))
    for predicate, value in {"version": package.version, "license": package.licence, **needs}.items():
        if value:
            yield ManifestFact(package.name, predicate, value[:MAX_VALUE_CHARS], (predicate.split()[-1], value))
    for name, versions in islice(package.dependencies.items(), _MAX_DEPENDENCIES):
        yield ManifestFact(package.name, f"depends on {name}", versions[:MAX_VALUE_CHARS] or _ANY, (name,))
