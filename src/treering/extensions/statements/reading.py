"""Reading statements in clauses: their owner, force, subject and values."""

import re
from collections.abc import Iterator
from dataclasses import replace
from functools import lru_cache

from treering.extensions.statements.extractive import is_machine, is_notice
from treering.extensions.statements.forces import force_of
from treering.extensions.statements.quotes import Clause
from treering.extensions.statements.sentences import clauses_of
from treering.extensions.statements.statement import MIN_WORDS, SaidMessage, StatedValue, Statement
from treering.extensions.statements.values import is_past, values_in
from treering.extensions.statements.words import KIN, LanguageWords, words_for, words_in
from treering.retrieval.text.analysis import stem

_VERB = re.compile(
    r"\b(?:is|are|was|were|'s|'re|has|have|had|will|'ll|can|could|must|need|needs|pays?|costs?|lives?|works?|starts?|"
    r"comes?|moves?d?|visits?|wants?|likes?|loves?|hates?|prefers?|lands?|takes?|brings?|got|gets?|went|plays?|drinks?|"
    r"eats?|meets?|agreed|does|do|said|happens?|arrives?|holds?|opens?|closes?|begins?|ends?|stays?|goes|go|leaves?|"
    r"belongs?|uses?|sells?|makes?|teaches|teach|drives?|brought|keeps?|speaks?|runs?|sits?|serves?|charges?|"
    r"expires?|departs?|recommends?|caught|bought|sold|sent|paid|met|lost|found|left|gave|broke|\w{3,}ed|"
    r"ist|sind|hat|wird|wohnt|wohne|kostet|es|son|vive|vivo|está)\b"
)
_NAME = r"[^\W\d_a-zà-ÿ][\w’'-]+"
_OTHER = re.compile(rf"^(?:but |and |so |then |our |my )?(?P<name>{_NAME}(?: {_NAME})?),? (?P<next>[\w'’]+)")
_VERBS_OF_OTHERS = re.compile(
    r"(?:is|has|will|'ll|can|was|wants?|needs?|does|doesn't|isn't|won't|lives?|works?|likes?|loves?|hates?|prefers?|"
    r"moved|quit|got|takes?|brings?|plays?|drives?|eats?|gets?|starts?|started|wrote|said|agreed|can't|\w+s|\w+ed|ist|hat|"
    r"wird|wohnt|arbeitet|vive|trabaja|es|está)"
)
_SOURCE = re.compile(r"(?:and |but |so )?(?:the|my|our) [\w'-]+ ")
_MIN_AGENT_CHARS = 6
_PRONOUN = re.compile(r"^(?:and |so |but )?(?:it|that|this|he|she|they|those|her|his|its|their)\b(?:'s|'re)?")
"""The beginning of a clause about something mentioned before."""
_DENIED_END = re.compile(
    r"\b(?:never|not|don't|didn't|won't|can't|wouldn't) (?:gonna |going to |ever |to )?"
    r"(?:quit|stop|forget|give up|drop|cancel|sell|miss|be over)\b"
)
"""`I'll never forget it` and `don't quit` end nothing."""
_LINKS = re.compile(r"https?://\S+|www\.\S+|(?<!\w)@[\w'’.-]+(?: [^\W\d_][\w'’-]+)?:|@\w+")
"""Addresses of pages and mentions of people. A clause of nothing else states nothing."""
_EXCLAIMS = re.compile(
    r"(?:(?:and|oh|wow|so|ok),? )?(?:what an?|(?:happy|merry) (?!with|to|for|that|if|about)\w+|"
    r"(?:have|enjoy) (?:an?|your|the) (?:good|great|lovely|nice|safe|wonderful))\b"
)
"""The beginning of an exclamation or of a wish. Without a topic, it states nothing: `What a lovely day today!`."""
_EXPLAINS = re.compile(r"\b(?:typo|mistyped|misspoke|my (?:mistake|bad|error)|(?:mixed|muddled) (?:it|them|that) up)\b")
"""A sentence that names the one before it as a correction."""
_ASTERISK = re.compile(r"^\*\s?\S+|^\S+(?: \S+)?\s?\*$")


@lru_cache(maxsize=2_048)
def statements_of(said: SaidMessage) -> tuple[Statement, ...]:
    """Return the statements of a message, clause by clause; none for models and for notices of bots.

    A pure function; the last messages are cached, because writers retry after a conflict.
    """
    if said.machine or is_machine(said.speaker, ()) or is_notice(said.text):
        return ()
    words = words_for(said.text)
    clauses = clauses_of(said, words)
    return tuple(_statements(said, clauses, words))


def topics_of(question: str) -> frozenset[str]:
    """Return the stems that a question is about."""
    return _stems(question, words_for(question))


def _statements(said: SaidMessage, clauses: list[Clause], words: LanguageWords) -> list[Statement]:
    number, agreed, opening = 0, False, ""
    made: list[Statement] = []
    for place, part in enumerate(clauses):
        if not _LINKS.sub("", part.text).strip(" .,:;-()<>"):
            continue
        read = _statement(said, replace(part, text=f"{opening}{part.text}"), number, words)
        if _EXCLAIMS.match(part.text.casefold()) and not (read.topics and (read.values or _has_verb(part.text, words))):
            continue
        has_more = place + 1 < len(clauses) and clauses[place + 1].author == part.author
        if has_more and "correct" in read.cues and not read.things and not read.values:
            opening = f"{opening}{part.text} "  # `Sorry, typo!` says what the next sentence does
            continue
        if made and _EXPLAINS.search(part.text.casefold()) and not read.things and not read.values:
            made[-1] = replace(made[-1], cues=made[-1].cues | {"correct"})  # `… on 14 May. I mistyped it.`
            continue
        agreed = agreed or "agrees" in read.cues
        if agreed and read.force == "suggested":
            read = replace(read, force="planned")
        opening = ""
        number += 1
        made.append(read)
    return made


def _statement(said: SaidMessage, clause: Clause, number: int, words: LanguageWords) -> Statement:
    text = clause.text
    plain = text.casefold().replace("’", "'").strip(" .!,;…:()*")
    cues = words.cues_in(plain)
    if _ASTERISK.match(text.strip(" .!")):
        cues |= {"correct"}
    values, rest = values_in(text, words, at=said.at)
    if "end" in cues and _DENIED_END.search(plain):
        cues -= {"end"}
    if any(text.startswith(value.text) and not text[len(value.text) :][:2].strip(" ,.!*") for value in values):
        cues |= {"leads"}
    verb = _VERB.search(rest.casefold().replace("’", "'"))
    subject = _stems(rest[: verb.start()] if verb else "", words)
    topics = _stems(_without_cues(rest.casefold(), words), words)
    attributes = frozenset(name for name, pattern in words.attributes.items() if pattern.search(plain))
    if any(value.kind == "address" for value in values):
        attributes |= {"home"}
    author = clause.author or said.speaker
    owner, reported = _owner(text, author, words)
    if "suppose" in cues and not _supposes(plain, words):
        cues -= {"suppose"}
    is_value = (
        any(value.kind != "name" for value in values) and owner == author and not _has_verb(rest.split(",")[0], words)
    )
    is_ahead = said.at is not None and any(value.first and value.first > said.at.date() for value in values)
    force = force_of(text, cues, is_value=is_value, is_ahead=is_ahead, intro=clause.intro)
    if reported and force == "asserted":
        force = "reported"
    if is_past(plain):
        cues |= {"did"}
    cues -= {"objects"}
    opening = {"agree": "agrees", "refuse": "refuses", "answer": "answers", "objects": "objects"}
    cues |= {name for cue, name in opening.items() if words.begins_with(cue, plain)}
    return Statement(
        message=said.position,
        number=number,
        author=author,
        owner=owner,
        text=f"{clause.intro}: {text}" if clause.intro else text,
        force=force,
        positive="negative" not in cues,
        subject=subject,
        topics=topics,
        attributes=attributes,
        modifiers=frozenset(_modifiers(words_in(text), words)),
        values=values,
        cues=cues,
        single=bool(attributes & words.single) and "add" not in cues,
        verbs=topics & words.verbs,
        units=_units(text, values, words),
        names=_names(text, values, owner if owner != author else "", words),
        at=said.at,
        quoted_by=said.speaker if clause.quoted else "",
        begins=number == 0,
        refers=_PRONOUN.match(plain) is not None,
    )


def _supposes(plain: str, words: LanguageWords) -> bool:
    """Return whether a clause as a whole is supposed: `the donkey has to wait, maybe next weekend` is not."""
    first, *others = plain.split(", ")
    if words.begins_with("suppose", plain) or (words.cues["suppose"].search(first) and _has_verb(first, words)):
        return True
    parts = [part for part in (first, *others) if len(part.split()) >= MIN_WORDS]
    return not any(_has_verb(part, words) and not words.cues["suppose"].search(part) for part in parts)


def _has_verb(text: str, words: LanguageWords) -> bool:
    plain = text.casefold().replace("’", "'")
    return (
        _VERB.search(plain) is not None
        or words.report.search(plain) is not None
        or any(
            word in words.pronouns
            or word in words.verb_forms
            or word in words.irregular
            or word.endswith(("ed", "n't", "'m", "'ve"))
            for word in words_in(plain)
        )
    )


def _owner(text: str, author: str, words: LanguageWords) -> tuple[str, bool]:
    """Return whom a clause is about, and whether another person is reported to say so."""
    match = _OTHER.match(text.strip())
    if match and match["name"].casefold().split()[0].removesuffix("'s") not in words.small:
        name, verb = match["name"], match["next"].casefold().replace("’", "'")
        if words.report.fullmatch(verb) or words.report.match(f"{verb} me"):
            return name, True
        if _VERBS_OF_OTHERS.fullmatch(verb) and not name.endswith(("'s", "’s")):
            return name, False
    plain = text.casefold().replace("’", "'")
    if words.cues["group"].search(plain) and not re.search(r"\b(?:i|my)\b", plain):
        return "", False
    return author, False


def _names(text: str, values: tuple[StatedValue, ...], person: str, words: LanguageWords) -> frozenset[str]:
    """Return the stems of the names in a clause, of the person it is about, and of relatives."""
    names = [one.text for one in values if one.kind == "name"]
    relatives = [word for word in words_in(text) if words.modifiers.get(word.removesuffix("'s")) in KIN]
    return _stems(" ".join([*names, *relatives, person]), words)


def _units(text: str, values: tuple[StatedValue, ...], words: LanguageWords) -> frozenset[str]:
    """Return the stems of words that follow amounts."""
    after = [text.partition(one.text)[2].split() for one in values if one.kind == "amount"]
    return _stems(" ".join(following[0] for following in after if following), words)


def _without_cues(text: str, words: LanguageWords) -> str:
    """Return a text without words that are no topics, such as `cancelled`, `I meant` and `the vet thinks`."""
    plain = text.replace("’", "'")
    source = _SOURCE.match(plain)
    if source and (report := words.report.match(plain, source.end())):
        plain = plain[report.end() :]
    return words.cues["correct"].sub(" ", words.cues["end"].sub(_between, plain))


def _between(cue: re.Match[str]) -> str:
    """Return the words inside a cue, which may be its object: `don't go to the gym any more`, `gave the Corolla to`."""
    return f" {' '.join(cue[0].split()[1:-1])} "


def _modifiers(spoken: list[str], words: LanguageWords) -> Iterator[str]:
    """Return the modifiers among words: `my work phone` has one, `I work at Helio` has none."""
    for before, word, after in zip(["", *spoken], spoken, [*spoken[1:], ""], strict=False):
        is_verb = word in words.verb_forms and (before in words.pronouns or after in words.small)
        modifier = words.modifiers.get(word.removesuffix("'s"))
        if modifier and not is_verb:
            yield modifier


def _stems(text: str, words: LanguageWords) -> frozenset[str]:
    spoken = (word.removesuffix("'s") for word in words_in(text))
    return frozenset(
        _stem(words.irregular.get(word, word)) for word in spoken if word not in words.small and len(word) > 1
    )


def _stem(word: str) -> str:
    """Return the stem of a word, the same for an activity and its agent: `roof` and `roofers`."""
    short = stem(word)
    return short.removesuffix("er") if len(short) >= _MIN_AGENT_CHARS else short
