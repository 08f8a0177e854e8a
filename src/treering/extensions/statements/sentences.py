"""Splitting a message into clauses, each with its speaker: the sender, or the person whom a quote names."""

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace

from treering.extensions.statements.statement import SaidMessage
from treering.extensions.statements.words import LanguageWords
from treering.retrieval.extraction.extractive import is_notice, split_sentences

UNKNOWN = "someone"
"""The author of quoted words whom nobody names."""

_CODE = re.compile(r"```.*?(?:```|\Z)|\[(?:image|audio|file|video)\b[^\]\n]*\]", re.DOTALL)
_PASTED = re.compile(r"(?P<name>[^\W\d_][\w.'’ -]{0,30}?)(?: ?[\[(]?\d{1,2}[:.]\d\d[^:]{0,12})?: +(?P<text>\S.*)")
_NAME = r"[^\W\d_a-zà-ÿ][\w'’-]*(?:\.? [^\W\d_a-zà-ÿ][\w’-]*)?"
_QUOTE = re.compile(r"[\"“„«](?P<text>[^\"“”„«»]{2,400})[\"”“»]")
_BY = re.compile(rf"\W*(?:[Bb]y|[Vv]on|–|—|-) ({_NAME})")
_ACTS = re.compile(r" (?:had|has|is|was|just|told|will|and)\b|['’]s\b")
_OWN = re.compile(r"\bi (?:\w+ )?(?:said|say|told \w+|asked|wrote|meant)\W*$")
_FIRST_PERSON = re.compile(r"(?<!\w)(?:i|i['’]\w+|my|we|mine|ich|mein\w*|yo|mi)(?!\w)")
_SPEECH = re.compile(
    r"(?<!\w)(?P<who>(?i:he|she|they|mum|mom|dad)|[^\W\d_a-zà-ÿ][\w’-]*) (?P<verb>\w+)(?: \w+)?[,:] "
    r"(?P<speech>(?i:i|i['’]\w+|my|we) .+)"
)
_GOES_ON = re.compile(r" ([^\W\d_a-z]?[a-z]\w+)")
_SENDER = re.compile(
    rf"(?:from|what|by|mail of|message of|von|de) ({_NAME})|({_NAME}) (?:sent|wrote|said|says|schrieb|:)"
)
_HEADER = re.compile(rf"(?:from|von|de):\s*({_NAME})", re.IGNORECASE)
_FORWARD = re.compile(r"-{2,} ?(?:forwarded|original|weitergeleitet|begin)[^\n]*", re.IGNORECASE)
_PRONOUN = r"(?:i|we|he|she|they|i['’]m|i['’]ll|we['’]re)\b"
_BREAK = re.compile(
    r"\s*;\s+|,? but (?!also\b)|\s+[–—]\s+|,? aber |,? pero |"
    rf",? and (?=(?:my|our|the|{_PRONOUN})\b)|, (?={_PRONOUN})"
    rf"|,? (?<!just )so (?=(?:you|it|the|that|there|{_PRONOUN})\b)"
    r"|, (?=(?:any|can you|could you|do you|is there|are there|got)\b|(?:what|how|which|who|when|where)\b[^,]*\?)",
    re.IGNORECASE,
)
_ASKED_LAST = re.compile(
    r"(?P<told>.{8,}), (?P<asked>(?!right|no|yes|ok|okay|correct|huh|eh|isn|aren|doesn|don|wasn|won|though|or)"
    r"(?:[\w'’]+ ?){1,5}\?+)"
)
"""`The flight lands at 6, pick me up?` states something, and asks for something else."""
_ASKING = re.compile(
    r"(?:\w+[,!] )?(?:is|are|was|were|do|does|did|can|could|will|would|shall|should|may|has|have|had|what|who|when|"
    r"where|why|how|which|any|got|still|if|and|or)\b",
    re.IGNORECASE,
)
_LIST = re.compile(r"^(?P<intro>[^:]{2,40}): (?P<items>[^,]+(?:,[^,]+)+)$")
_INTRODUCES = re.compile(
    r"\b(?:from|got this|forward\w*|sent|wrote|says|said|quote|copied|pasted)\b.*:$", re.IGNORECASE
)
"""A line after which the rest of a message is somebody else's words."""
PLANNED_LIST = re.compile(r"to-?do|need|must|plan|steps|tasks|errands|today|this week|tomorrow|list|remind")
"""The beginning of a list of things to do."""
_LABELS = frozenset(
    {"update", "edit", "ps", "note", "re", "fyi", "todo", "to do", "reminder", "correction", "http", "https"}
)
"""Words before a colon that name nobody."""

_MIN_CLAUSE_WORDS = 3
"""A shorter beginning, such as `Dear Ada,`, is no clause of its own."""
_MAX_INTRODUCTION_WORDS = 8
"""`Forwarding what Hugo sent:` in front of pasted words says nothing of its own."""
_AROUND = 60
_MIN_SPEECH_WORDS = 4
_MAX_REPORT_WORDS = 5
"""`Ben wrote to me:` around a quote says nothing of its own."""


@dataclass(frozen=True, slots=True)
class Clause:
    """A clause. `author`: who says it, if that is not the sender."""

    text: str
    author: str = ""
    quoted: bool = False
    intro: str = ""
    """The beginning of a list it is an item of."""


def clauses_of(said: SaidMessage, words: LanguageWords) -> list[Clause]:
    """Return the clauses of a message, in order."""
    return [clause for part in _attributed(_CODE.sub("\n", said.text), words) for clause in _parts(part, words)]


def _attributed(text: str, words: LanguageWords) -> Iterator[Clause]:
    """Return the lines of a message with the author of quoted and pasted ones."""
    sender = ""
    forwarded = False
    for line in text.split("\n"):
        bare = line.strip()
        if is_notice(bare):
            continue
        if _FORWARD.match(bare):
            forwarded, sender = True, ""
        elif header := _HEADER.fullmatch(bare):
            forwarded, sender = True, header[1]
        elif bare.startswith(">") or forwarded:
            quoted = bare.lstrip("> ").strip()
            named = _speaker(quoted, words)
            sender = named[0] if named else sender
            yield Clause(named[1] if named else quoted, sender or UNKNOWN, quoted=True)
        elif named := _speaker(bare, words):
            yield Clause(named[1], named[0], quoted=True)
        else:
            found = _SENDER.search(bare)
            sender = (found[1] or found[2] or "").removesuffix(":") if found else ""
            sender = sender if sender.casefold() not in words.small else ""
            forwarded = _INTRODUCES.search(bare) is not None
            if not (forwarded and len(bare.split()) <= _MAX_INTRODUCTION_WORDS):
                yield from _inline_quotes(bare, words)


def _speaker(line: str, words: LanguageWords) -> tuple[str, str] | None:
    found = _PASTED.fullmatch(line)
    if not found:
        return None
    name = found["name"].strip()
    parts = name.split()
    is_name = len(parts) <= 3 and all(part[:1].isupper() for part in parts) and name.casefold() not in _LABELS
    return (name, found["text"]) if is_name and not any(p.casefold() in words.small for p in parts) else None


def _inline_quotes(line: str, words: LanguageWords) -> Iterator[Clause]:
    """Return the quotes in a line with their speakers, and the rest of the line if it has content."""
    rest = line
    for quote in _QUOTE.finditer(line):
        author = _quoted_author(line[: quote.start()], quote["text"], line[quote.end() :], words)
        if author:
            yield from (Clause(sentence, author, quoted=True) for sentence in split_sentences(quote["text"]))
            rest = rest.replace(quote[0], " ")
    if rest == line or len(rest.split()) > _MAX_REPORT_WORDS:
        yield from _reports(rest, words)


def _quoted_author(before: str, quoted: str, after: str, words: LanguageWords) -> str:
    """Return who says what is between quotation marks: empty if it is no speech, or the sender's own."""
    near = f"{before[-_AROUND:]}\0{after[:30]}"
    if _OWN.search(before.casefold()):
        return ""
    goes_on = _GOES_ON.match(after)  # `"A House" sells better`: a title, and no speech
    is_reported = words.report.search(near.casefold()) and not (goes_on and not words.report.match(goes_on[1]))
    if not (is_reported or (_FIRST_PERSON.search(quoted.casefold()) and len(quoted.split()) >= _MIN_SPEECH_WORDS)):
        return ""
    by = _BY.match(after)
    names = [by[1]] if by else _names(before, words) or _names(f"…{after[:30]}", words)
    return names[-1] if names else UNKNOWN


def _names(text: str, words: LanguageWords) -> list[str]:
    """Return the names in a text; the first word of a sentence is one only if it does something."""
    found = []
    for match in re.finditer(_NAME, text):
        is_first = text[: match.start()].rstrip(' "“„«')[-1:] in ("", *".!?:;")
        acts = _ACTS.match(text[match.end() :]) or words.report.match(text[match.end() :].lstrip())
        if not (is_first and not acts) and not any(part.casefold() in words.small for part in match[0].split()):
            found.append(re.sub(r"['’]s$", "", match[0]))
    return found


def _reports(line: str, words: LanguageWords) -> Iterator[Clause]:
    """Cut `Mum goes, I'm having no fuss` in front of what she says."""
    for sentence in split_sentences(line):
        found = _SPEECH.search(sentence)
        if not found or not words.report.fullmatch(found["verb"].casefold()):
            yield Clause(sentence)
            continue
        names = _names(line[: line.index(sentence) + found.start("verb")], words)
        is_pronoun = found["who"].casefold() in words.small
        yield Clause(sentence[: found.start()].strip(" ,")) if sentence[: found.start()].strip(" ,") else Clause("")
        author = (names[-1] if names else UNKNOWN) if is_pronoun else found["who"]
        yield Clause(found["speech"], author, quoted=True)


def _parts(part: Clause, words: LanguageWords) -> Iterator[Clause]:
    quotes = [quote[0] for quote in _QUOTE.finditer(part.text)]
    text = part.text
    for number, quote in enumerate(quotes):
        text = text.replace(quote, _mask(number))
    for clause in _cut(replace(part, text=text), words):
        shown = clause.text
        for number, quote in enumerate(quotes):
            shown = shown.replace(_mask(number), quote)
        yield replace(clause, text=shown)


def _mask(number: int) -> str:
    """Return a word that stands for a quote while a text is cut."""
    return f"\ue000{number}\ue001"


def _cut(part: Clause, words: LanguageWords) -> Iterator[Clause]:
    for sentence in split_sentences(part.text):
        items = _LIST.match(sentence)
        if items and PLANNED_LIST.search(items["intro"].casefold()):
            for item in re.split(r",(?: and)? | and ", items["items"]):
                yield replace(part, text=item.strip(), intro=items["intro"])
            continue
        for clause in _clauses(sentence, words):
            yield replace(part, text=clause)


def _clauses(sentence: str, words: LanguageWords) -> Iterator[str]:
    """Cut a sentence where another one begins. `If …`, `oh sure, …` and a short opening belong to what follows them."""
    asking = _ASKED_LAST.fullmatch(sentence)
    if asking and not _ASKING.match(sentence):
        yield from _clauses(asking["told"], words)
        yield asking["asked"]
        return
    start = 0
    for joint in _BREAK.finditer(sentence):
        head = sentence[start : joint.start()]
        if len(head.split()) >= _MIN_CLAUSE_WORDS and not words.begins_with("suppose", head.casefold().strip()):
            yield head.strip()
            start = joint.end()
    if sentence[start:].strip(" .!?,-"):
        yield sentence[start:].strip()
