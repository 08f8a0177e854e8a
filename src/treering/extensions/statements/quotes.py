"""The authors of the words of a message: the sender, or a person named by a quote, a letter or a pasted log."""

import re
from collections.abc import Iterator
from dataclasses import dataclass

from treering.extensions.statements.extractive import is_notice, split_sentences
from treering.extensions.statements.words import KIN, LanguageWords

UNKNOWN = "someone"
"""The author of quoted words without a name."""

_PASTED = re.compile(
    r"(?P<before>\[?(?:[\d/.-]{4,10},? )?\d{1,2}:\d\d(?::\d\d)?(?: ?[ap]m)?\]? (?:- )?)?"
    r"(?P<name>[^\W\d_][\w.'’ -]{0,30}?)(?P<after> ?[\[(]?\d{1,2}[:.]\d\d[^:]{0,12})?: +(?P<text>\S.*)"
)
_BULLET = re.compile(r"^(?:[-•–]|\d{1,2}[.)]) +")
_SOURCE = re.compile(
    r"(?P<of>.{0,40}?)\b(?i:text|message|msg|e?-?mail|note|letter|voicemail|transcript|postcard|reply|answer|status|post|"
    r"flyer|sms|whatsapp|dm)\b(?P<from>[^:\"]{0,30}): (?P<text>.+)"
)
"""`Tom's text: running late` quotes Tom without marks."""
_NAME = r"[^\W\d_a-zà-ÿ][\w'’-]*(?:\.? [^\W\d_a-zà-ÿ][\w’-]*)?"
QUOTE = re.compile(
    r"[\"“„«]([^\"“”„«»]{2,400})[\"”“»]|(?<![\w'’])['‘]((?:[^'‘’\n]|(?<=\w)['’](?=\w)){8,400}?)['’](?!\w)"
)
_ANGLED = re.compile(r">> ?([^<>\n]{2,400}?) ?<<")
"""`>> my goats ate the manual <<` is quoted, too."""
_BY = re.compile(rf"\W*(?:[Bb]y|[Vv]on|–|—|-) ({_NAME})")
_ACTS = re.compile(r" (?:had|has|is|was|just|told|will|and|left|sent)\b|['’]s\b")
_OWN = re.compile(r"\bi (?:\w+ )?(?:said|say|told \w+|asked|wrote|meant)\W*$")
_FIRST_PERSON = re.compile(r"(?<!\w)(?:i|i['’]\w+|my|me|we|we['’]\w+|us|our|mine|ich|mein\w*|yo|mi)(?!\w)")
_ADDRESSED = re.compile(rf"{_FIRST_PERSON.pattern}|(?<!\w)(?:you|your)(?!\w)")
_SPEECH = re.compile(
    r"(?<![\w'’-])(?P<who>(?!(?i:i|we|you)\b)[\w-]+)(?P<is>['’]s)? "
    r"(?P<verb>(?:(?:was|were|is) )?\w+(?: it)?)(?: (?:to )?(?:me|us))?[,:] "
    r"(?P<speech>(?i:i|i['’]\w+|my|we|we['’]\w+) .+?)(?P<own>,? (?:and|but|so) (?i:i) (?:said|told|was) .+)?$"
)
"""`She goes, I'm having no fuss` quotes her without marks."""
_REPORT = re.compile(
    rf"(?P<who>{_NAME}) (?:told (?:me|us)|said|says) (?:that )?"
    r"(?P<speech>(?:he|she|they)(?:['’]\w+)? .+?)(?P<own>, so .+)?"
)
"""Reported speech: `Joost told me he's allergic` is a statement of Joost."""
_OPINION = re.compile(rf"(?:(?i:our|my) )?(?P<who>{_NAME}) (?:thinks|reckons|believes|insists|swears by) [^,]+")
"""`Our Tiago swears by these` is a statement of Tiago."""
_REPORT_ONLY = re.compile(r"(?:(?<=^)|(?<=[.!?,;] ))[^.!?,;\0]{0,40}?[,:]? ?\0")
_SENDERS_OWN = re.compile(
    r"(?:(?i:my|a|an|the|quick|short|small|last|side|one|just|please|final|brief|here['’]s|is)\b\s*)*"
)
_GOES_ON = re.compile(r" ([^\W\d_a-z]?[a-z]\w+)")
_SENDER = re.compile(
    rf"(?:from|what|by|mail of|message of|von|de) ({_NAME})|(?<![\w'’-])({_NAME}) (?:sent|wrote|said|says|schrieb|:)"
)
_HEADER = re.compile(rf"(?i:from|von|de):\s*({_NAME})[^:]*")
_FORWARD = re.compile(r"-{2,} ?(?:forwarded|original|weitergeleitet|begin)[^\n]*", re.IGNORECASE)
_INTRODUCES = re.compile(
    r"\b(?:from|got this|forward\w*|sent|wrote|says|said|quote|copied|pasted)\b.*:$", re.IGNORECASE
)
"""A line after which the rest of a message is quoted."""
_LABELS = frozenset(
    "update edit ps note re fyi todo reminder correction http https subject to cc date sent betreff an datum".split()
)
"""Words before a colon that are no names."""

MIN_CLAUSE_WORDS = 3
"""A shorter beginning, such as `Dear Ada,`, is no clause of its own."""
_MAX_INTRODUCTION_WORDS = 8
"""`Forwarding what Hugo sent:` in front of pasted words is no statement."""
_AROUND = 60
_MIN_SPEECH_WORDS = 4
_MAX_SMALL_CHARS = 3
"""Words up to this length may be small in a title: `How I Built This`."""
_MAX_REPORT_WORDS = 1
"""`Ben wrote to me:` around a quote is no statement."""


@dataclass(frozen=True, slots=True)
class Clause:
    """A clause. `author`: empty for the sender."""

    text: str
    author: str = ""
    quoted: bool = False
    intro: str = ""
    """The introduction of the list that contains it."""


def attributed(text: str, words: LanguageWords) -> Iterator[Clause]:
    """Return the lines of a message with the author of quoted and pasted ones."""
    sender = ""
    forwarded = False
    is_log = sum(_speaker(line.strip(), words, is_log=True) is not None for line in text.split("\n")) > 1
    for line in _ANGLED.sub(r'"\1"', text).split("\n"):
        bare = _BULLET.sub("", line.strip())
        if is_notice(bare):
            continue
        if _FORWARD.match(bare):
            forwarded, sender = True, ""
        elif header := _HEADER.fullmatch(bare):
            forwarded, sender = True, header[1]
        elif bare.startswith(">") or forwarded:
            quoted = bare.lstrip("> ").strip()
            named = _speaker(quoted, words, is_log=True)
            sender = named[0] if named else sender
            yield Clause(named[1] if named else quoted, sender or UNKNOWN, quoted=True)
        elif named := _speaker(bare, words, is_log=is_log):
            yield Clause(named[1], named[0], quoted=True)
        elif source := _source(bare, words):
            yield source
        else:
            match = _SENDER.search(bare)
            sender = (match[1] or match[2] or "").removesuffix(":") if match else ""
            sender = sender if sender.casefold() not in words.small else ""
            forwarded = _INTRODUCES.search(bare) is not None
            if not (forwarded and len(bare.split()) <= _MAX_INTRODUCTION_WORDS):
                yield from _inline_quotes(bare, words)


def _speaker(line: str, words: LanguageWords, *, is_log: bool) -> tuple[str, str] | None:
    """Split a line of a log into its author and their words. A single `Plan: the boat leaves at 9` is no log."""
    match = _PASTED.fullmatch(line)
    if not match:
        return None
    name = match["name"].strip()
    parts = name.split()
    is_person = _FIRST_PERSON.search(match["text"].casefold()) is not None
    is_upper = all(part[:1].isupper() for part in parts) or (is_log and is_person and len(parts) == 1)
    is_name = len(parts) <= 3 and is_upper and name.casefold() not in _LABELS
    is_said = is_log or match["before"] or match["after"] or is_person
    if not is_name or not is_said or any(part.casefold() in words.small for part in parts):
        return None
    return name, match["text"]


def _source(line: str, words: LanguageWords) -> Clause | None:
    """Return the words of a message, letter or call that a line repeats; `None` for a note of the sender's own."""
    match = _SOURCE.fullmatch(line)
    if not match or not _ADDRESSED.search(match["text"].casefold()):
        return None
    names = _names(match["of"], words) or _names(match["from"], words)
    if not names and _SENDERS_OWN.fullmatch(match["of"]) and " from " not in match["from"]:
        return None
    return Clause(match["text"].strip('"“”„ '), names[0] if names else UNKNOWN, quoted=True)


def _inline_quotes(line: str, words: LanguageWords) -> Iterator[Clause]:
    """Return the quotes in a line with their speakers, and the rest of the line if it has content."""
    rest = line
    for quote in QUOTE.finditer(line):
        quoted = quote[1] or quote[2]
        author = _quoted_author(line[: quote.start()], quoted, line[quote.end() :], words)
        if author:
            yield from (Clause(sentence, author, quoted=True) for sentence in split_sentences(quoted))
            rest = rest.replace(quote[0], "\0")
    for introduction in _REPORT_ONLY.findall(rest):
        if words.report.search(introduction.casefold()):
            rest = rest.replace(introduction, " ")
    rest = rest.replace("\0", " ")
    if rest == line or len(rest.split()) > _MAX_REPORT_WORDS:
        yield from _reports(rest, words)


def _quoted_author(before: str, quoted: str, after: str, words: LanguageWords) -> str:
    """Return the author of words in quotation marks: empty for a title, and for the sender's own words."""
    long = [word for word in quoted.split() if len(word) > _MAX_SMALL_CHARS]
    if (len(long) > 1 and all(word[:1].isupper() for word in long)) or _OWN.search(before.casefold()):
        return ""
    is_reported = words.report.search(f"{before[-_AROUND:]}\0{after[:30]}".casefold()) is not None
    goes_on = _GOES_ON.match(after)  # `"A House" sells better`: a title, and no speech
    if _FIRST_PERSON.search(quoted.casefold()):
        is_speech = is_reported or len(quoted.split()) >= _MIN_SPEECH_WORDS
    else:
        is_speech = is_reported and not (goes_on and not words.report.match(goes_on[1]))
    if not is_speech:
        return ""
    by = _BY.match(after)
    names = [by[1]] if by else _names(before, words) or _names(f"…{after[:30]}", words)
    return names[-1] if names else UNKNOWN


def _names(text: str, words: LanguageWords) -> list[str]:
    """Return the names in a text; the first word of a sentence is one only if it does something."""
    names = []
    for match in re.finditer(_NAME, text):
        is_first = text[: match.start()].rstrip(' "“„«')[-1:] in ("", *".!?:;")
        after = text[match.end() :]
        is_person = match[0].endswith(("'s", "’s")) or match[0].casefold() in words.modifiers
        acts = is_person or _ACTS.match(after) or words.report.match(after.lstrip())
        parts = [part for part in match[0].split() if part.casefold() not in words.small]
        if parts and (acts or not is_first or len(parts) < len(match[0].split())):
            names.append(re.sub(r"['’]s$", "", " ".join(parts)))
    return names


def _reports(line: str, words: LanguageWords) -> Iterator[Clause]:
    """Cut `Mum goes, I'm having no fuss` before the words of Mum."""
    before = ""
    for sentence in split_sentences(line):
        report, match, opinion = _REPORT.fullmatch(sentence), _SPEECH.search(sentence), _OPINION.match(sentence)
        verb = f"{'is ' if match['is'] else ''}{match['verb'].casefold()}" if match else ""
        if report and report["who"].casefold() not in words.small:
            yield Clause(report["speech"], report["who"], quoted=True)
            yield from [Clause(report["own"].removeprefix(", so "))] if report["own"] else []
        elif opinion and opinion["who"].casefold() not in words.small:
            yield Clause(opinion[0], opinion["who"], quoted=True)
            yield from [Clause(rest)] if (rest := sentence[opinion.end() :].strip(" ,")) else []
        elif match and _is_person(match["who"], verb, words):
            opening = sentence[: match.start()].strip(" ,")
            if len(opening.split()) >= MIN_CLAUSE_WORDS:
                yield Clause(opening)
            names = _names(f"{before} {sentence[: match.end('verb')]}", words)
            is_named = match["who"] in " ".join(names[-1:]) or match["who"].casefold() in words.small
            yield Clause(match["speech"], names[-1] if names and is_named else UNKNOWN, quoted=True)
            yield from [Clause(match["own"].strip(" ,"))] if match["own"] else []
        else:
            yield Clause(sentence)
        before = f"{before} {sentence}"


def _is_person(who: str, verb: str, words: LanguageWords) -> bool:
    """Return whether a person is the speaker, unlike in `the weekend edition goes, I've told them`."""
    is_named = who[:1].isupper() or who in words.small or words.modifiers.get(who) in KIN
    return bool(words.report.fullmatch(verb) or words.report.match(f"{verb} me")) and (is_named or verb != "goes")
