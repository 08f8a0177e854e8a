"""Rules of a project: sentences that command or forbid, from files and sections that set rules."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from treering.ports.adapter import KnowledgeDraft, SegmentDraft
from treering.ports.format import PROSE_SUFFIX, posix_path
from treering.sources.reading.lines import restructured_outline, segment_at
from treering.sources.reading.text import Paragraph, is_markdown, paragraphs

_INSTRUCTIONS = re.compile(
    r"(?:(?i:code_?-?of_?-?style|style|style_?-?guide|coding_?-?(?:style|standards|guidelines)|conventions"
    rf"|copilot-instructions)|AGENTS|CLAUDE|GEMINI)(?i:{PROSE_SUFFIX})?"
)
"""Names of files that consist of rules, in contrast to `_GUIDE`, which also welcomes, explains and lists steps.

Those for agents are in capitals: `docs/agents.md` describes a feature.
"""
_GUIDE = re.compile(rf"(?:contributing|hacking)(?:{PROSE_SUFFIX})?", re.IGNORECASE)
_EDITOR_RULES = re.compile(
    r"(?:^|/)(?:\.(?:cursor|windsurf|clinerules|claude|continue)/(?:rules/)?[^/]+\.mdc?"
    r"|\.github/instructions/[^/]+\.md|\.(?:cursorrules|windsurfrules|clinerules))$",
    re.IGNORECASE,
)
_RULES_SECTION = re.compile(
    r"\b(?:styles?|conventions?|guidelines?|standards?|rules?|polic(?:y|ies)|principles?|requirements?|expectations?)\b",
    re.IGNORECASE,
)
"""Headings in a guide below which sentences are rules."""
_MANNERS = re.compile(
    r"\b(?:conduct|manners?|polite\w*|respectful\w*|friendly|unpleasant|poor behaviou?r|harass\w*|disagree\w*)\b",
    re.IGNORECASE,
)

_FORBID = r"(?:never|always|avoid|prefer|(?:only|ONLY) use|do not|don['’]t)\b"
# No verb that is more often a noun at the beginning of an item: "Test helpers", "Import order", "Format", "Document".
_VERB = (
    r"(?:use|keep|follow|ensure|make sure|write|put|place|name|wrap|return(?! (?:type|value|code))|handle|treat|limit"
    r"|declare|define|extend|favou?r|preserve|reuse|raise|pass|cover|annotate|validate)\b"
)
_CONDITION = r"(?:(?:if|when|whenever|before|after|unless|for|in|on)\b[^,.;:]{3,120}, (?:then )?(?:please )?)?"
_COMMAND = re.compile(rf"(?:please )?{_CONDITION}(?:{_FORBID}|you must\b)", re.IGNORECASE)
_INSTRUCTION = re.compile(rf"{_CONDITION}{_VERB}", re.IGNORECASE)
_OPENING = re.compile(rf"(?:please )?(?:{_FORBID}|{_VERB}|you must|the)\b", re.IGNORECASE)
"""How a rule begins that its heading gives a subject to."""
_MODAL = re.compile(
    r"(?<!that )(?<!which )(?<!who )\b(?:must|shall"
    r"|(?:is|are) (?:mandatory|forbidden|not (?:allowed|permitted|accepted)))\b",
    re.IGNORECASE,
)
_SHOULD = re.compile(r"(?:[^\s,;:]+ ){1,8}(?<!that )(?<!which )(?<!who )should(?:n['’]t)?\b", re.IGNORECASE)
_NO_RULE = re.compile(
    r"\b(?:not?|none|never|isn['’]t|aren['’]t)\s(?:\w+\s){0,6}mandatory\b|:\s*$|\?(?:\W|$)"
    r"|\b(?:we|i|it|they) (?:must|shall|should)\b|\byou should\b|\bdoes not mean\b"
    r"|\b(?:must|should|shall) (?:have been|now|be able|see|first|then|also)\b"
    r"|^if you(?:['’](?:d|re)|\s(?:like|want|wish|would|need|prefer|plan|are|have|do not|don['’]t))\b"
    r"|\bmust (?:be |have )?install|\b(?:may|might|can) require\b"
    r"|\b(?:don['’]t|do not|not|never) (?:worry|hesitate|be afraid|need|have to|know|despair|wait|feel|forget|want)\b",
    re.IGNORECASE,
)
_TORN = re.compile(
    r"[\W_]*(?:it|its|they|their|this|these|that|those|he|she|we|what|if (?:so|yes|no|not)|however|so"
    r"|but|and|or|then|instead|also|otherwise|therefore|thus|hence|again|finally|first|next|why|to)\b",
    re.IGNORECASE,
)
"""How a sentence begins that needs the one before it, or that is a step of instructions."""
_POINTS_ELSEWHERE = re.compile(
    r"\b(?:the following|below|above|as follows|aforementioned|the (?:former|latter|other|rest|above|two))\b"
    r"|\bthe same\b(?! \w+ (?:as|for)\b)"
    r"|\b(?:these|those|such|either|neither|both) \w+|\beither,"
    r"|\bthis (?!repo|project|code\s?base|package|crate|module|folder|directory)"
    r"|\bhere\b|^(?:(?! and | - |[–—;,]).)*\binstead[.!)]*$|\b(?:too|there|accordingly)[.!)]*$|\bexample\s*[,:]",
    re.IGNORECASE,
)
"""References to text outside the sentence."""
_PRONOUN_FIRST = re.compile(r"\W*(?:[\w'’-]+\W+){0,6}(?:it|its|them|they|their|one|ones)\b", re.IGNORECASE)
"""A pronoun before any noun that it could refer to."""
_MARK = re.compile(r"^[*_]{0,2}(?:important|note|rule|tip|warning)[*_]{0,2}\s*[:!–—-]\s*[*_]{0,2}", re.IGNORECASE)
_LABEL = re.compile(r"[*_]{0,2}[A-Z`][^.:!?]{1,40}[*_]{0,2}(?: [–—-]|:)[*_]{0,2}\s+(?=[A-Z`])")
_LINK = re.compile(r"!?\[([^\]\n]{0,200})\]\([^)\s]{0,500}\)")
_CODE = re.compile(r"`[^`]*`")
_NO_SUBJECT = re.compile(
    r"(?:[\w-]+ ){0,2}(?:rules?|guidelines?|guides?|conventions?|styles?|contributing|notes?|general|overview"
    r"|instructions|requirements?|principles?|style guide|do|don['’]ts?)|agents\.md|claude\.md",
    re.IGNORECASE,
)
"""Headings that name no subject."""
_NESTED = re.compile(r"\n\s*(?:[-*+]|\d{1,3}[.)])\s")
_SENTENCE_END = re.compile(r"(?<=[.!?])(?<!e\.g\.)(?<!i\.e\.)(?<!etc\.)(?<!vs\.)[*_`\")]{0,3}\s+(?=[A-Z`*_\"'(\[])")
_IMPACT = re.compile(r"(?:otherwise|violat|failing to|failure to)", re.IGNORECASE)
_GLOBS = re.compile(r"^(?:globs|applyTo|paths):[ \t]*\[?([^\n\]]{1,300})", re.MULTILINE)
_WHOLE = ("", ".", ".github", "docs", "doc")
_MOST_RULES = 30
_SHORTEST_RULE, _LONGEST_RULE = 15, 400
_SHORT_RULE = 90
_LONGEST_TITLE = 120


@dataclass(frozen=True, slots=True)
class _Rule:
    sentence: str
    impact: str
    line: int


def sets_rules(path: str) -> bool:
    """Return whether a file is there to set rules, by its path."""
    name = posix_path(path).name
    return bool(_GUIDE.fullmatch(name)) or _consists_of_rules(path)


def constraints(path: str, text: str, segments: Sequence[SegmentDraft]) -> Iterator[KnowledgeDraft]:
    """Yield the rules (at most 30) that a file sets, each with the heading of its subject."""
    folder = str(posix_path(path).parent)
    scope = _globs(text) or "repository" if _EDITOR_RULES.search(path) or folder in _WHOLE else folder
    proposed: set[str] = set()
    for block in _blocks(path, text):
        at = segment_at(segments, block.line)
        heading = segments[at].heading
        strict = _consists_of_rules(path) or bool(_RULES_SECTION.search(heading))
        for rule in _rules(block, strict=strict):
            if rule.sentence not in proposed and len(proposed) < _MOST_RULES:
                proposed.add(rule.sentence)
                payload = {"rule": rule.sentence, "scope": scope, "violation_impact": rule.impact}
                yield KnowledgeDraft("constraint", _titled(rule.sentence, heading), payload, at, heading)


def _consists_of_rules(path: str) -> bool:
    return bool(_INSTRUCTIONS.fullmatch(posix_path(path).name) or _EDITOR_RULES.search(path))


def _titled(rule: str, heading: str) -> str:
    """Return the title of a rule, preceded by its heading if the rule is short and does not name its subject."""
    subject = heading.rpartition(" > ")[2]
    is_named = bool(subject) and not _NO_SUBJECT.fullmatch(subject) and not _LABEL.match(rule)
    needs_subject = len(rule) < _SHORT_RULE and is_named and _OPENING.match(rule)
    return (f"{subject}: {rule}" if needs_subject else rule)[:_LONGEST_TITLE]


def _globs(text: str) -> str:
    """Return the files a rule applies to, from the front matter; empty for all."""
    matter = text.split("\n---", 1)[0] if text.startswith("---") else ""
    match = _GLOBS.search(matter)
    return re.sub(r"[\"']", "", match[1]).strip() if match else ""


def _blocks(path: str, text: str) -> Iterator[Paragraph]:
    if is_markdown(path):
        yield from paragraphs(text)
        return
    outline = restructured_outline(text, indented_blocks=True)
    for start, end in zip(outline.cuts, [*outline.cuts[1:], len(outline.lines)], strict=True):
        yield Paragraph(" ".join(outline.lines[start:end]).strip(" *-"), start)


def _rules(block: Paragraph, *, strict: bool) -> Iterator[_Rule]:
    """Yield the sentences of a paragraph or list item that set a rule, with a following sentence about violations."""
    own = _NESTED.split(block.text, maxsplit=1)[0]
    plain = _MARK.sub("", _LINK.sub(r"\1", " ".join(own.replace("**", "").split())))
    sentences = _SENTENCE_END.split(plain)
    for number, (sentence, following) in enumerate(zip(sentences, [*sentences[1:], ""], strict=True)):
        if _is_rule(sentence, strict=strict, first=number == 0):
            yield _Rule(sentence.strip("*_- "), following if _IMPACT.match(following) else "", block.line)


def _is_rule(sentence: str, *, strict: bool, first: bool) -> bool:
    """Return whether a sentence commands or forbids something about the work, and can be understood by itself.

    `strict`: it is in a section of rules, in which plain imperatives count; `first`: it begins a paragraph or an item.
    """
    prose = _CODE.sub("`…`", sentence)
    return (
        _SHORTEST_RULE <= len(sentence) <= _LONGEST_RULE
        and not sentence.startswith(("#", "//", "(", "|", ">"))
        and _commands(sentence, strict=strict, first=first)
        and not any(excluded.search(prose) for excluded in (_NO_RULE, _POINTS_ELSEWHERE, _MANNERS))
        and not any(torn.match(prose) for torn in (_TORN, _PRONOUN_FIRST))
    )


def _commands(sentence: str, *, strict: bool, first: bool) -> bool:
    label = _LABEL.match(sentence)
    command = (sentence[label.end() :] if label else sentence).lstrip("*_`\"' ")
    if _COMMAND.match(command) or _MODAL.search(command):
        return True
    return strict and first and bool((command[0].isupper() and _INSTRUCTION.match(command)) or _SHOULD.match(command))
