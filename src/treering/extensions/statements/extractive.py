"""Extractive summaries: choose the most informative sentences by cue phrases, names, dates and numbers.

The weights are set by hand: a decision counts more than a wish, a wish more than a remark, and a question little.
English cues weigh most; names, dates and numbers are found in any script.
"""

import re
from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from functools import lru_cache
from typing import Literal

from treering.core.canonical import normalise_text
from treering.ports.models import Entity, Excerpt
from treering.retrieval.extraction.built_in import BuiltInExtractor
from treering.retrieval.extraction.names import (
    AUXILIARIES,
    CONNECTIVES,
    DETERMINERS,
    FLAT,
    PLEASANTRIES,
    PREPOSITIONS,
    PRONOUNS,
    entity_key,
)
from treering.retrieval.text.dates import date_ranges

Sort = Literal["decision", "preference", "open", "fact"]
"""The topic of a sentence: a decision, a personal preference, open work or an open question, or anything else."""

WORTH_KEEPING = 1.0
"""The weight below which a sentence is not worth remembering."""


@dataclass(frozen=True, slots=True)
class Sentence:
    """A sentence, its speaker (empty if unknown), and its weight."""

    text: str
    speaker: str = ""
    weight: float = 0.0
    when: str = ""
    """Its day, such as `2026-01-31`; empty if unknown."""
    message: int | None = None
    """The position of its message, if known."""

    @property
    def key(self) -> str:
        """A normal form that repeated sentences share."""
        return normalise_text(f"{self.speaker}: {self.text}").rstrip(" .!。！")


def sentences_of(text: str, *, speaker: str = "", when: str = "", message: int | None = None) -> list[Sentence]:
    """Return the sentences of a message with their weights, in order, without code blocks and bare links."""
    parts = (_cut(" ".join(part.split())) for part in _END.split(_CODE.sub("\n", text)))
    return [sentence_of(part, speaker, when, message) for part in parts if _LETTERS.search(part)]


def sentence_of(text: str, speaker: str = "", when: str = "", message: int | None = None) -> Sentence:
    """Return one sentence with its weight."""
    less = _HALF if speaker.lower() in _MACHINES else 0.0
    return Sentence(text, speaker, weight_of(text) - less, when, message)


def split_sentences(text: str) -> list[str]:
    """Return the sentences of a text, each on one line."""
    return [" ".join(part.split()) for part in _END.split(text) if part.strip()]


def told(sentences: Sequence[Sentence]) -> str:
    """Write sentences as running text for people and models, which is not parsed again.

    The day and the speaker are written when they change. The speaker is also written before and after a sentence that
    looks like another speaker's (`Ben: I will pay, he wrote.`).
    """
    parts: list[str] = []
    speaker = when = ""
    for sentence in sentences:
        day = f"[{sentence.when}] " if sentence.when and sentence.when != when else ""
        seems_other = _OPENING.match(sentence.text) is not None
        named = day or sentence.speaker != speaker or seems_other
        name = f"{sentence.speaker}: " if sentence.speaker and named else ""
        parts.append(f"{day}{name}{ended(sentence.text)}")
        speaker, when = "" if seems_other else sentence.speaker, sentence.when or when
    return " ".join(parts)


def dated(sentence: Sentence) -> Sentence:
    """Add the days of relative dates to a sentence: `last Friday (2026-01-30)`. After `I will`, May is the next one."""
    if not sentence.when:
        return sentence
    said = datetime.fromisoformat(sentence.when)
    absolute = {dates.start for dates in date_ranges(sentence.text, said=None)}
    text = sentence.text
    planned = {dates.start: dates for dates in date_ranges(text, said=said, ahead=True)}
    for dates in reversed(date_ranges(text, said=said)):
        if dates.start not in absolute:
            is_planned = _PLANNED.search(text[: dates.start])
            first, final = (planned.get(dates.start, dates) if is_planned else dates).period
            last = f" to {final}" if final > first else ""
            end = dates.start + len(text[dates.start : dates.end].rstrip(" .,"))
            text = f"{text[:end]} ({first}{last}){text[end:]}"
    return replace(sentence, text=text)


def best(sentences: Sequence[Sentence], *, most: int, words: int) -> list[Sentence]:
    """Return the sentences with the highest weights, in order: at most `most`, with about `words` words in total.

    Unimportant and repeated sentences are left out. The best one is returned even if it is too long.
    """
    chosen: set[int] = set()
    seen: set[str] = set()
    left = words
    ranked = sorted(range(len(sentences)), key=lambda at: (-sentences[at].weight, at))
    for at in ranked:
        sentence = sentences[at]
        length = _length(sentence.text)
        if sentence.weight < WORTH_KEEPING or len(chosen) == most:
            break
        if sentence.key not in seen and (length <= left or not chosen):
            chosen.add(at)
            seen.add(sentence.key)
            left -= length
    return [sentences[at] for at in sorted(chosen)]


@lru_cache(maxsize=1 << 12)
def weight_of(sentence: str) -> float:
    """Return the weight of a sentence, from below 0 for a greeting to about 8."""
    words = [word.lower() for word in _WORD.findall(sentence)]
    if not words or all(word in _EMPTY for word in words):
        return -1.0
    weight = sum(worth for cue, worth in _CUES if cue.search(sentence))
    weight += _HALF if _MEASURE.search(sentence) else 0.0
    weight += sum(min(count, 2) * _KINDS.get(kind, 0.0) for kind, count in _kinds(sentence).items())
    weight += _PER_WORD * min(sum(word not in _SMALL for word in words), _MOST_WORDS) if sentence.isascii() else _BASE
    is_question = sentence.rstrip("\"'”’) ").endswith(("?", "？"))
    is_instruction = _REQUEST.match(sentence) or (_INSTRUCTION.match(sentence) and not is_question)
    weight += _HALF if is_instruction else -_QUESTION if is_question else 0.0
    return weight - (_FRAGMENT if _length(sentence) < _FEW_WORDS and not _MEASURE.search(sentence) else 0.0)


def says_nothing(text: str) -> bool:
    """Return whether a text has only words of greetings and thanks, such as `Noted.` or `[image]`."""
    return all(word.lower() in _EMPTY for word in _WORD.findall(_PART.sub("", text)))


def adds_words(text: str, to: str) -> bool:
    """Return whether a text has a telling word that another one does not have."""
    words, known = ({word.lower() for word in _WORD.findall(one)} for one in (text, to))
    return not words <= known | _SMALL


def sort_of(sentence: str) -> Sort:
    """Return the topic of a sentence."""
    return next((sort for sort, cue in _SORTS if cue.search(sentence)), "fact")


def entities_of(sentences: Iterable[Sentence]) -> list[str]:
    """Return the names, dates and amounts in sentences, the most frequent first."""
    listed = list(sentences)
    named = [entity for sentence in listed for entity in entities_in(sentence.text) if entity.kind != "phrase"]
    return _by_count([*(sentence.speaker for sentence in listed), *(entity.name for entity in named)])


def phrases_of(sentences: Iterable[Sentence]) -> list[str]:
    """Return the topics without a name in sentences, the most frequent first."""
    phrases = [entity for sentence in sentences for entity in entities_in(sentence.text) if entity.kind == "phrase"]
    return _by_count(entity.name for entity in phrases)


@lru_cache(maxsize=1 << 12)
def entities_in(sentence: str) -> tuple[Entity, ...]:
    """Return the entities of a sentence, in order."""
    (extraction,) = BuiltInExtractor().extract([Excerpt(sentence, form="dialogue", speaker=_NO_SPEAKER)])
    return tuple(entity for entity in extraction.entities if entity.kind != "speaker" and _is_informative(entity.name))


_NO_SPEAKER = "-"  # so that `Note: …` inside a sentence is not taken for a speaker

_CODE = re.compile(r"```.*?(?:```|\Z)|\bhttps?://\S+", re.DOTALL)
_SHORTENED = (r"Mr", r"Ms", r"Dr", r"St", r"Mrs", r"Prof", r"e\.g", r"i\.e", r"vs", r"[A-Z]")
_TITLED = "".join(rf"(?<!\b{word}\.)" for word in _SHORTENED)
_END = re.compile(rf"(?<=[.!?…]){_TITLED}[\"'”’)\]]?\s+(?=\S)|(?<=[。！？])\s*(?=\S)|\n+")
_OPENING = re.compile(r"[^\W\d_][^\n:.!?\[\]]{0,40}: ")
"""The beginning of a sentence that looks like another speaker's: `Ben: `, but also `Update: `."""
_PLANNED = re.compile(
    r"(?:\b(?:will|won['’]t|shall|going to)|['’]ll)\b(?!.*\b(?:was|were|had|did|went|\w+ed)\b)[^,;:]*$", re.IGNORECASE
)
"""The words of a plan before its date. `I will tell you what happened in May` is none."""
_LETTERS = re.compile(r"[^\W_]")
_WORD = re.compile(r"[^\W_]+(?:['’][^\W_]+)*")
_PART = re.compile(r"\[(?:image|audio|file|video)\b[^\]\n]*\]")
_WIDE = re.compile(r"[\u2e80-\u9fff\uac00-\ud7af]")
_EMPTY = PLEASANTRIES | frozenset(
    "a i it is am are you we the that this so and to do me much very too then well ok okay yes no not please welcome "
    "your very for all of good morning evening night day got understood noted alright see later soon have one course "
    "problem worries perfect done cheers what how why who really indeed agreed sounds makes sense will would can "
    "could let know if else anything help happy glad need questions any here there".split()
)
_SMALL = _EMPTY | DETERMINERS | PRONOUNS | PREPOSITIONS | CONNECTIVES | AUXILIARIES | FLAT
_LONGEST = 320  # characters of a sentence
_FEW_WORDS = 4
_QUESTION = 1.0
_FRAGMENT = 0.8
_HALF = 0.5
"""Added for an instruction and for a measure, and subtracted for a model as the speaker, which can answer again."""
_PER_WORD = 0.15
_MOST_WORDS = 8
_BASE = 1.0
"""The weight of a sentence with letters beyond ASCII, instead of `_PER_WORD`."""
_MACHINES = frozenset({"assistant", "ai", "model", "bot"})
_WIDE_PER_WORD = 2
_KINDS = {"name": 0.7, "title": 0.6, "date": 1.0, "number": 0.8, "symbol": 0.4, "module": 0.4, "phrase": 0.25}


def _cue(pattern: str) -> re.Pattern[str]:
    return re.compile(rf"\b(?:{pattern})", re.IGNORECASE)


_STATED = (
    r"(?:(?:so|then|ok|okay|right|alright|well|yes|no|and|fine)[,.]? )*we(?:[’']ll| will)? "
    r"(?:do|use|take|pick|choose|skip|drop|keep|ship|start with|stay with|stick with|go with|go for|go)"
    r"(?: (?!not\b|have\b|need\b|want\b|know\b|think\b|see\b|this\b|that\b|it\b|all\b|so\b)[^\s,;:!?]+){1,5}[.!]?$"
)
"""A short sentence with a decision and nothing else: `We do Postgres then.`"""

_DECISION = _cue(
    r"(?:we|i|they|team)(?:'ve| have| had)? (?:all )?(?:decided|agreed|chose|settled|picked|opted)\b|"
    r"decided (?:to|on|that|against)\b|decision\b|"
    r"let[’']?s (?:use|go with|do|make|keep|switch|take|call|stick|meet|try)\b|"
    r"(?:we|i)(?:'ll| will| are going to| shall)? (?:go|going|stick|sticking) with\b|settled on\b|"
    r"the plan is\b|from now on\b|instead of\b|(?:we|i) (?:will|'ll) use\b|"
    r"we[’']ll (?:use|go|switch|keep|ship)\b|approved\b|rejected\b|agreed to\b|switch(?:ed|ing) to\b|"
    rf"(?<!.){_STATED}"
)
_PREFERENCE = _cue(
    r"i (?:really |absolutely |just |also |do |don[’']t |do not |can[’']t |cannot |would |[’']d )*(?:love|like|"
    r"prefer|hate|enjoy|dislike|adore|stand|rather)\b|"
    r"i[’']d (?:rather|prefer|like)\b|my favou?rite\b|favou?rites?\b|"
    r"i[’']m (?:a (?:big )?fan|allergic|into|fond)\b|allergic\b|"
    r"(?:always|never) (?:use|write|eat|drink|call|ask|answer|reply|do)\b|"
    r"please (?:always|never|don[’']t|use|keep|call|write|answer)\b|"
    r"(?:she|he|they) (?:really )?(?:loves?|likes?|prefers?|hates?)\b"
)
_OPEN = _cue(
    r"(?:i|we|you|they|he|she)(?:[’']ll| will| need to| have to| must| should|[’']ve got to| still need)\b|"
    r"to-?do\b|deadline\b|due (?:on|by|date|in)\b|"
    r"by (?:monday|tuesday|wednesday|thursday|friday|saturday|sunday|tomorrow|tonight|next|the end|end of)\b|"
    r"remind(?:er)?\b|don[’']t forget\b|still (?:open|unclear|missing|waiting)\b|"
    r"not (?:yet )?(?:decided|clear|sure)\b|follow[- ]?up\b|(?:i|we)[’']m going to\b|"
    r"we(?:[’']re| are) going to\b|plan(?:s|ning)? to\b|promise\b|scheduled\b|blocked\b"
)
_PERSONAL = _cue(
    r"my name is\b|i[’']m called\b|"
    r"i (?:live|lived|work|worked|study|studied|moved|grew up|was born|got|bought|started|quit|joined|adopted|"
    r"married|graduated|signed up|finished|visited|went|met|lost|won|passed)\b|"
    r"i am (?:a|an|from|the)\b|i[’']m (?:a|an|from|the)\b|"
    r"my (?:\w+ ){0,2}(?:wife|husband|partner|son|daughter|kids?|mother|father|mom|mum|dad|sister|brother|"
    r"friend|dog|cat|boss|team|company|job|birthday|phone|email|address|doctor|daughter)\b"
)
_REASON = _cue(
    r"because\b|the reason\b|root cause\b|turns? out\b|caused by\b|fixed\b|solution\b|important(?:ly)?\b|"
    r"remember\b|note that\b"
)
_PRAISE = _cue(
    r"proud of you\b|(?:awesome|great|impressive|amazing|good) (?:job|work)\b|good for you\b|thank(?:s| you)\b|"
    r"sounds (?:great|good|like|amazing|awesome|cool|fun)\b|lucky to have you\b|(?:i )?(?:totally |100% )?agree\b|"
    r"you(?:[’']re| are) (?:so|doing|right|welcome)\b|happy for you\b|let me know\b|hope (?:this|that) helps\b"
)
_INSTRUCTION = re.compile(
    r"(?:@[^\n:]{1,40}: ?)?(?:(?:also|and|then|now|please|just|only|maybe|actually|first|next|so)[,]? )*[\"“'’]?"
    r"(?:add|ask|build|call|change|check|copy|create|delete|deploy|document|drop|fix|implement|install|keep|look|make|"
    r"measure|move|plan|publish|put|refactor|release|remove|rename|replace|review|run|send|set up|switch|test|try|"
    r"update|upgrade|use|write)\b",
    re.IGNORECASE,
)
"""A sentence with an instruction."""
_INTENT = _cue(r"let me (?:try|implement|build|write|fix|change|add|check)\b")
_REQUEST = re.compile(
    r"(?:\w+[,!]? )?(?:can|could|would|will) (?:you|we|somebody|someone) (?:please |also )?"
    r"(?:add|build|call|change|check|create|delete|deploy|document|fix|implement|install|make|move|put|refactor|release|"
    r"remove|rename|replace|review|send|set|switch|test|update|upgrade|use|write)\b",
    re.IGNORECASE,
)
"""A question that is really a request for work."""
_MEASURE = re.compile(
    r"\b\d[\d.,]*\s?(?:[kmgt]?i?b|%|€|\$|seconds?|minutes?|hours?|days?|weeks?|months?|years?|km|kg|euros?)\b",
    re.IGNORECASE,
)
_CUES = (
    (_DECISION, 3.0),
    (_PREFERENCE, 2.0),
    (_OPEN, 1.6),
    (_PERSONAL, 1.6),
    (_REASON, 1.0),
    (_PRAISE, -1.5),
    (_INTENT, 0.6),
)
_SORTS: tuple[tuple[Sort, re.Pattern[str]], ...] = (
    ("decision", _DECISION),
    ("preference", _PREFERENCE),
    ("open", _OPEN),
)


def _kinds(sentence: str) -> Counter[str]:
    entities = (entity for entity in entities_in(sentence) if entity.kind != "name" or not _addresses(sentence, entity))
    return Counter(entity.kind for entity in entities)


def _addresses(sentence: str, entity: Entity) -> bool:
    """Return whether a name only addresses a person: `Thanks, Ada!`."""
    before, after = sentence[: entity.start].rstrip(), sentence[entity.end :].lstrip()
    return entity.name.isalpha() and before[-1:] in {"", ","} and after[:1] in {"", ",", ".", "!", "?"}


def _is_informative(name: str) -> bool:
    words = name.lower().split()
    return not all(word in _EMPTY or word in FLAT for word in words)


def _by_count(names: Iterable[str]) -> list[str]:
    """Return distinct names as first written, the most frequent first, ties in order."""
    written: dict[str, str] = {}
    counts: Counter[str] = Counter()
    for name in filter(None, names):
        key = entity_key(name)
        written.setdefault(key, name)
        counts[key] += 1
    return [written[key] for key, _ in counts.most_common()]


def _length(text: str) -> int:
    wide = len(_WIDE.findall(text))
    return len(text.split()) + wide // _WIDE_PER_WORD


def _cut(text: str) -> str:
    if len(text) <= _LONGEST:
        return text
    end = text.rfind(" ", 0, _LONGEST)
    return f"{text[: end if end > _LONGEST // 2 else _LONGEST].rstrip()}…"


def ended(text: str) -> str:
    """Return a sentence with a full stop, unless it ends with punctuation."""
    return text if text[-1:] in ".!?…。！？:" else f"{text}."


_CHANGES = (
    r"\[[^\]\n]{1,100}\] (?:\d+ new commits?\b|new (?:branch|tag)\b|(?:the )?branch\b)|"
    r"\S{1,40} pushed \d+ (?:new )?commits?\b|"
    r"merged? (?:pull|merge) request [#!]\d+ from\b|merge (?:remote-tracking )?branch ['\"]|"
    r"[0-9a-f]{7,40}(?: \([^)\n]{0,300}\))?: "
)
_EVENTS = (
    r"(?:(?:has )?(?:joined|left) the channel|uploaded a file\b|commented on [^\n:]{1,80}['’]s file\b|"
    r"(?:set|cleared) the channel (?:topic|purpose|description)\b|(?:un)?archived the channel\b|"
    r"renamed the channel\b|pinned a message\b|added an integration\b)"
)
_NOTICE = re.compile(_CHANGES, re.IGNORECASE)
_EVENT = re.compile(rf"@?[^\n:.!?]{{0,60}}?\b{_EVENTS}", re.IGNORECASE)
_MACHINE = re.compile(
    r".*\[bot\]|.*[-_ .](?:bot|webhook|ci)|[A-Za-z]+[a-z]Bot|slackbot|dependabot|renovate|github|gitlab|bitbucket|jira|"
    r"jenkins|travis|circleci|buildkite|codecov|coveralls|sentry|pagerduty|zapier|ifttt|webhook|statuspage"
)
_LONGEST_NOTICE = 500
"""Characters of a text that are read to recognize a notice."""
_BOT = "bot"
_ASKING = frozenset({"user", "human", "you", "me", "customer", "visitor"})
"""Speakers who address a model that is called a bot."""


def is_notice(text: str) -> bool:
    """Return whether a line is an automatic notice in a conversation: of a commit, a build, a file, or a new member."""
    begin = text.lstrip()[:_LONGEST_NOTICE]
    return _NOTICE.match(begin) is not None or _EVENT.match(begin) is not None


def is_machine(speaker: str, speakers: Collection[str]) -> bool:
    """Return whether a speaker is a machine that posts notices. A bot that `speakers` address as a model is a model."""
    if speaker.casefold() == _BOT:
        return not any(other.casefold() in _ASKING for other in speakers)
    return _MACHINE.fullmatch(speaker if "Bot" in speaker else speaker.casefold()) is not None
