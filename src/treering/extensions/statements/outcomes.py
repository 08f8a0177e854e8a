"""Decisions, rules and causes of failures that a message states literally."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from treering.extensions.statements.extractive import sentences_of

OutcomeKind = Literal["decision", "rule", "failure"]


@dataclass(frozen=True, slots=True)
class Outcome:
    """A literal sentence about a decision or a failure, or that sets a rule."""

    kind: OutcomeKind
    text: str
    reason: str = ""
    content: str = ""
    """The rule, or the decision without its reason; both without their announcement. The sentence of a failure."""


def outcomes_of(text: str) -> Iterator[Outcome]:
    """Yield the decisions, rules and failures in a message, apart from questions, quotes and code."""
    after_correction = False
    for sentence in sentences_of(text):
        plain = sentence.text.strip()
        if len(plain) <= _MAX_CHARS and not plain.rstrip("\"'”’) ").endswith("?"):
            outcome = _outcome(plain, after_correction=after_correction)
            yield from [outcome] if outcome else []
        after_correction = _CORRECTION.fullmatch(plain) is not None


def _outcome(sentence: str, *, after_correction: bool) -> Outcome | None:
    reason = _BECAUSE.search(sentence)
    why = reason["reason"].rstrip(" .!") if reason else ""
    if rule := _rule(sentence, after_correction=after_correction):
        return Outcome("rule", sentence, why, rule)
    if _FAILURE.search(sentence):
        return Outcome("failure", sentence, why, sentence)
    announced = _DECIDED.search(sentence)
    is_stated = announced and not _UNDECIDED.search(sentence) and any(map(str.isalnum, sentence[announced.end() :]))
    return _decision(sentence, announced) if announced and is_stated else None


def _rule(sentence: str, *, after_correction: bool) -> str:
    """Return the rule that a sentence sets, or an empty text."""
    if _OF_ONE_TASK.search(sentence):
        return ""
    if match := _ALWAYS.match(sentence) or _FROM_NOW_ON.match(sentence):
        return _sentence_case(sentence[match.start("rule") :])
    match = _NORM.match(sentence) or _PROHIBITION.match(sentence) or _CHOICE.match(sentence)
    if match is None or _ONCE.search(sentence):
        return ""
    is_correction = after_correction or _CORRECTION.match(sentence) is not None
    if match.re is _NORM or _is_general(sentence, match, is_correction=is_correction):
        return _sentence_case(sentence[match.start("rule") :])
    return ""


def _is_general(sentence: str, match: re.Match[str], *, is_correction: bool) -> bool:
    """Return whether a prohibition or choice is about things of a kind, not about one thing or place of the task."""
    start = match.start("rule")
    if _FOR_KIND.match(sentence, start):
        return True
    if match.re is _CHOICE:
        return is_correction
    has_alternative = _ALTERNATIVE.search(sentence) is not None
    if match["one"] or _THERE.search(sentence):
        return is_correction and has_alternative
    return bool(match["stop"]) or has_alternative or (is_correction and _GENERAL.match(sentence, start) is not None)


def _decision(sentence: str, announced: re.Match[str]) -> Outcome:
    """Cut the announcement and the reason off a decision; a place such as `For the cache we decided` stays."""
    opening = _OPENING.fullmatch(sentence[: announced.start()])
    start = announced.end() if opening else 0
    content, why = sentence[start:], (opening and opening["reason"]) or ""
    if reason := _BECAUSE.search(sentence, announced.end()):
        why = reason["reason"].rstrip(" .!)")
        after = sentence[reason.end() :].strip(" ;")
        content = sentence[start : reason.start()].rstrip(" ,–—-(") + (f"; {after}" if after else "")
    content = content.strip(" ,:;.!")
    return Outcome("decision", sentence, why, _sentence_case(content) or sentence)


def _sentence_case(text: str) -> str:
    """Return a text that begins with a capital letter, unless it begins with a name in code: `app.run`, `bodyLimit`."""
    first = text.split(" ", 1)[0]
    is_word = first.islower() and re.fullmatch(r"[^\W\d_]+(?:['’][^\W\d_]+)?[,;:]?", first)
    return text[:1].upper() + text[1:] if is_word else text


_MAX_CHARS = 400
_OPENING_WORD = r"(?:and|also|but|so|then|ok|okay|well|yes|no|nope|hmm+|please|actually)"
_OPENING = re.compile(
    rf"[\s*_•>-]*(?:{_OPENING_WORD}\b[,.:;]? ?)*(?:(?:because|since)\s+(?P<reason>[^,]+), ?)?", re.IGNORECASE
)
"""Words before a decision that add nothing to it, or its reason."""
_DECIDED = re.compile(
    r"^\W*decision\s*:|"
    r"\b(?:we|i)(?:['’]ve| have| had)?(?: all| now| just)? (?:decided|agreed|opted|settled)\b(?! (?:if|whether)\b)"
    r"(?: (?:to|that|on|for)\b)?|"
    r"\bit (?:was|is) (?:decided|agreed|settled)\b(?: (?:to|that|on)\b)?|\bthe decision (?:is|was) to\b|"
    r"\blet[’']?s (?=(?:use|go with|switch to|stick (?:with|to))\b)|"
    r"\bwe[’']ll (?=(?:use|go with|stick with|switch to)\b)|^(?:and |so )?from now on\b",
    re.IGNORECASE,
)
_UNDECIDED = re.compile(r"\b(?:not|never|n[’']t)(?: yet| been)* (?:decided|agreed|settled)\b|\bif we\b", re.IGNORECASE)
_BECAUSE = re.compile(
    r"\b(?:because(?: of)?|since(?! (?:v?\d|version|then|last)\b)|due to)\s+(?P<reason>[^;]{3,300})", re.IGNORECASE
)
_FAILURE = re.compile(
    r"\b(?:fail(?:s|ed)|br(?:eaks|oke)|crash(?:es|ed)|hangs|hung)\b.{0,120}\b(?:because|since|as|due to)\b|"
    r"\b(?:did|does|do)(?:n[’']t| not) work\b.{0,80}\b(?:because|since|as|due to)\b|"
    r"\b(?:root cause|culprit)\b.{0,40}\b(?:is|was)\b|\b(?:the|this) (?:cause|bug) (?:is|was)\b",
    re.IGNORECASE,
)

_BEGIN = r"[\s*_•-]*(?:\d+[.)] )?"
_VERB = (
    r"(?!\w+(?:ed|ing)\b|\w+[^\Ws]s\b|have (?:been|\w+e[dn])\b"  # `Always interested`, `Never appears`
    r"|(?:a|again|an|as|at|available|been|best|better|did|done|down|easy|felt|found|fun|glad|gone|good|got|great|had"
    r"|happy|hard|heard|here|in|is|knew|known|made|mind|my|nice|on|possible|ready|right|saw|say|seen|so|the|there|thought"
    r"|too|true|up|was|went|with|worth|wrong|your)\b)[a-z]+"
)
_NOT = r"do(?: not|n[’']t)"
_WRONG = (
    r"(?:(?:hmm+|oh|ok|okay|wait|sorry)\b[,.…]* )?(?:no+|nope|wrong|actually|not (?:like )?(?:this|that)|"
    r"(?:that|this|it)(?:[’']s| is| was)(?: \w+)? (?:wrong|incorrect|not right)|"
    r"(?:that|this|it) (?:isn[’']t|wasn[’']t) (?:right|correct))\b"
)
_CORRECTION = re.compile(rf"{_BEGIN}(?:{_WRONG}[\s,.:;!–—-]*)+", re.IGNORECASE)
_LEAD = (
    rf"(?:(?:{_WRONG}[,:;–— -]+)+|(?:in|for|on|at|with|when|if|as|outside) [^,;:.?\"“”]{{1,40}}, )?"
    rf"(?:{_OPENING_WORD}\b[,:]? ){{0,3}}"
)
"""The words before a rule: `That's wrong,`, `Also,`, `In tests,`."""
_REQUESTED = (
    r"(?:(?:(?:i(?: want|[’']d like| would like| need| expect)|make sure|be sure|remember)(?: that)?(?: you| we)?"
    r"(?: to)?|(?:you|we) (?:must|should)) )"
)
_ALWAYS = re.compile(
    rf"{_BEGIN}{_LEAD}{_REQUESTED}?(?P<rule>(?:never|always|{_NOT} ever)(?: ever)? {_VERB} \S)", re.IGNORECASE
)
"""A command that is always valid: `Never use thread::sleep in tests`; no exclamation such as `Always happy to help`."""
_FROM_NOW_ON = re.compile(
    rf"{_BEGIN}{_LEAD}from now on,? (?:please )?(?P<rule>(?:.*\bmust\b|(?:{_NOT}|never|always|only)\b"
    rf"|(?!(?:i|we|you|he|she|they|it|an?|the|this|that|every|each|all|no)\b)(?-i:{_VERB}) \S))",
    re.IGNORECASE,
)
_NORM = re.compile(
    rf"{_BEGIN}{_LEAD}(?P<rule>(?:every|each|all|any|no) (?!(?:of|the|these|those)\b)"
    r"[^,;:]{1,80}? must\b(?! have\b))",
    re.IGNORECASE,
)
"""What all things of a kind must be: `Every new parameter must be documented`."""
_ONE = r"(?:the|this|that|these|those|it|them|me|my|your|any\w*|every\w*|so|to|too)\b"
_PROHIBITION = re.compile(
    rf"{_BEGIN}{_LEAD}(?P<rule>(?:we (?:never|always) {_VERB}(?= (?!an?\b))"
    rf"|(?:(?P<stop>stop [a-z]+ing)"
    rf"|(?:we )?{_NOT} (?!(?:be|bother|care|forget|have|know|like|mind|need|see|think|understand|want|we|worry|you)\b)"
    r"[a-z]+)(?= (?!(?:for|in|on)\b)))"
    rf" (?!{_ONE})(?P<one>an? )?\S)",
    re.IGNORECASE,
)
"""A prohibition for things of a kind, as in `Don't use mocks in tests`; about one thing it ends with its task."""
_CHOICE = re.compile(
    rf"{_BEGIN}{_LEAD}(?P<rule>use (?!{_ONE}|an?\b)[^,;:]+? (?:instead of|rather than) (?!{_ONE}|an?\b)\S)",
    re.IGNORECASE,
)
"""The preferred one of two things: `Use assert.Equal instead of reflect.DeepEqual in tests`."""
_FOR_KIND = re.compile(
    rf"(?:we {_NOT} (?:add|allow|commit|introduce|log|throw|use) |(?:{_NOT} )?use\b[^,;]*? (?:for|in|outside) )"
    r"[^,;]*?\b(?!(?:the|this|that|these|those|my|your)\b)[a-z]+[^\Waius]s\b",
    re.IGNORECASE,
)
"""Things that a project does not do, or uses in things of a kind: `in tests`."""
_THERE = re.compile(r"\bthere\b", re.IGNORECASE)
_ALTERNATIVE = re.compile(r"\binstead\b|[,;–—] ?(?:but |rather |just )?use\b", re.IGNORECASE)
_GENERAL = re.compile(rf"we\b|{_NOT} use\b|[^,;]*?\b(?:here|anywhere|[a-z]+[^\Waius]s)\b", re.IGNORECASE)
"""A prohibition for things of a kind, recognized by `use`, `here` or a plural; not `Don't rename Foo`."""
_ONCE = re.compile(
    r"\b(?:now|yet|today|tonight|tomorrow|this time|at the moment|until"
    r"|(?:for|from|in|into|of|on|to|with) (?:it|this|that|them)\b(?! \w))\b",
    re.IGNORECASE,
)
"""Words of a request that ends with its task."""
_ITEM = (
    r"(?:approach(?:es)?|attempt|case|chapter|choice|comment|commit|file|finding|function|issue|item|line|option|part"
    r"|phase|point|pr|question|request|row|section|step|suggestion|task|test|ticket)s?"
)
_NUMBER = r"(?:one|two|three|four|five|six)"
_OF_ONE_TASK = re.compile(
    rf"#\d|\b{_ITEM} (?:\d|(?-i:[A-D])\b|{_NUMBER}\b\W*(?:(?:and|or|to)\b|$))"
    rf"|\bthe (?:first|second|third|last|previous|other) (?:(?:{_NUMBER}|few) )?"
    r"(?:approach|attempt|one|option|point|question|step|suggestion)s?\b"
    r"|\b(?:for now|this time|(?:for|in|of|on|to|with) this "
    r"(?:branch|case|change|commit|issue|pr|pull request|round|session|step|task|ticket))\b",
    re.IGNORECASE,
)
"""Items of a list or of the conversation, as in `Don't skip tests 4 and 5`, which no rule is about."""
