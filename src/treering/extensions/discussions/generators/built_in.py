"""The generator without a model: selects the most informative sentences, grouped by subject."""

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from treering.core.canonical import normalise_text
from treering.core.objects import BY_RULES
from treering.extensions.discussions.generators.generator import (
    Background,
    Chunk,
    Generated,
    GeneratedMemory,
    GeneratedText,
    SpokenLine,
)
from treering.extensions.discussions.generators.parsing import first_words
from treering.extensions.discussions.generators.utterances import (
    POINT,
    bare_line,
    lines_of,
    sentences_in,
    utterances_of,
    weight_of_line,
    words_of_line,
)
from treering.extensions.statements.extractive import (
    Sentence,
    Sort,
    best,
    dated,
    ended,
    entities_of,
    is_machine,
    is_notice,
    phrases_of,
    sentences_of,
    sort_of,
    told,
)
from treering.retrieval.text.analysis import estimate_tokens

SUMMARY_TOKENS = 1_200
"""The approximate maximum length of the rolling summary: the least informative lines are removed first."""
STATE_TOKENS = 2_000
"""The approximate maximum length of the state document."""


class BuiltInGenerator:
    """`Generator` by rules: its memories are sentences of the messages. Deterministic."""

    @property
    def name(self) -> str:
        """Name and version of the rules; it changes when their results do."""
        return f"{BY_RULES}-4"

    def memories(self, chunk: Chunk, background: Background) -> Generated:  # noqa: ARG002 - rules need the chunk alone
        """Make one memory of a chunk from its most informative sentences; none if nothing is worth remembering.

        Machine messages are omitted: commits, builds, files, arrivals.
        """
        sentences = [sentence for line in _spoken(chunk) for sentence in _sentences(line)]
        best_sentences = best(sentences, most=_SENTENCES, words=_WORDS)
        return Generated((_item(best_sentences, sentences),) if best_sentences else ())

    def condense(self, memories: Sequence[GeneratedMemory]) -> Generated:
        """Merge several memories into one: their most informative sentences."""
        sentences = [sentence for memory in memories for sentence in sentences_in(memory)]
        best_sentences = best(sentences, most=2 * _SENTENCES, words=2 * _WORDS) or sentences[:_SENTENCES]
        named = _distinct(name for memory in memories for name in memory.entities)
        phrases = _distinct(phrase for memory in memories for phrase in memory.key_phrases)
        topics = _distinct(topic for memory in memories for topic in memory.topics)
        if not best_sentences:
            return Generated(())
        item = _item(best_sentences, best_sentences)
        shared = {
            # Relative days were made absolute when the sentences became memories.
            "summary": told(best_sentences),
            "utterances": utterances_of(best_sentences),
            "entities": tuple(named[: 2 * _ENTITIES]) or item.entities,
            "key_phrases": tuple(phrases[: 2 * _PHRASES]) or item.key_phrases,
            "topics": tuple(topics[:_ENTITIES]),
        }
        return Generated((item.model_copy(update=shared),))

    def fold(self, summary: str, memories: Sequence[GeneratedMemory]) -> GeneratedText:
        """Add the memories, one line per sentence; if it is too long, remove the least informative, oldest first."""
        lines = [line.strip() for line in summary.split("\n") if line.strip()]
        known = {normalise_text(line) for line in lines}
        new = _distinct(line for memory in memories for line in lines_of(memory))
        lines += [line for line in new if normalise_text(line) not in known]
        return GeneratedText("\n".join(_fitted(lines, SUMMARY_TOKENS, range(len(lines)), keeps_best=True)))

    def merge(self, facts: str, document: str) -> GeneratedText:
        """Add each new fact to its section, unless the document already contains it.

        Each line of `facts` is one fact that names its speaker; facts are not interpreted. A fact replaces an older one
        only if both state a value of the same single-valued property in the same words (`Ada: my phone number is …`).
        """
        lines = document.rstrip().split("\n") if document.strip() else []
        known = {_comparable(line) for line in lines}
        for line in filter(str.strip, facts.split("\n")):
            fact = f"- {ended(POINT.sub('', line).strip())}"
            if weight_of_line(fact) >= _MIN_WEIGHT and _comparable(fact) not in known:
                known.add(_comparable(fact))
                lines = _with_fact(lines, fact)
        return GeneratedText("\n".join(_fitted(lines, STATE_TOKENS, _own_points(lines))))


_SENTENCES = 5
_WORDS = 80
_ENTITIES = 12
_PHRASES = 8
_MIN_WEIGHT = 1.6  # the minimum weight of a fact in the state document
_PARTS = frozenset({"user", "assistant", "human", "ai", "model", "bot"})
"""Roles, which occur in every discussion and are therefore no entities."""

_SECTIONS: dict[Sort, str] = {
    "decision": "## Decisions",
    "preference": "## Preferences",
    "fact": "## Facts",
    "open": "## Open",
}
_HEADING = re.compile(r"^#{1,6}\s")
_SINGLE = (
    r"(?:(?:e-?mail|home|postal|phone|mobile) )?(?:name|e-?mail|address|phone|number|birthday|age|deadline|"
    r"due date|version|budget|price|time ?zone|job title|salary|height|weight|favou?rite [\w ]{2,30}?)"
)
_SLOT = re.compile(
    rf"^(?P<slot>[^:\n]{{0,40}}:?[^:\n]{{0,30}}\b{_SINGLE}) (?:is|was|will be|=)(?: now)? \S", re.IGNORECASE
)


def _spoken(chunk: Chunk) -> Iterator[SpokenLine]:
    """Yield the lines that people and models wrote; skip messages that begin with a notice."""
    speakers = {line.speaker for line in chunk.lines}
    for line in chunk.lines:
        if not is_notice(line.text) and not is_machine(line.speaker, speakers):
            lines = (each for each in line.text.split("\n") if not is_notice(each))
            yield replace(line, text="\n".join(lines))


def _sentences(line: SpokenLine) -> list[Sentence]:
    when = f"{line.at:%Y-%m-%d}" if line.at else ""
    return sentences_of(line.text, speaker=line.speaker, when=when, message=line.position)


def _item(selected: Sequence[Sentence], sentences: Sequence[Sentence]) -> GeneratedMemory:
    entities = [name for name in entities_of(selected) if name.lower() not in _PARTS]
    phrases = phrases_of([*selected, *sentences])
    stated = [dated(sentence) for sentence in selected]
    return GeneratedMemory(
        title=_title(selected),
        summary=told(stated),
        utterances=utterances_of(stated),
        entities=tuple(entities[:_ENTITIES]),
        key_phrases=tuple(phrases[:_PHRASES]),
    )


def _title(sentences: Sequence[Sentence]) -> str:
    """Return the beginning of the most informative sentence, with its speaker if that is a name."""
    top = max(sentences, key=lambda sentence: sentence.weight)
    speaker = f"{top.speaker}: " if top.speaker and top.speaker.lower() not in _PARTS else ""
    return first_words(f"{speaker}{top.text}").removesuffix(".")


def _distinct(texts: Iterable[str]) -> list[str]:
    return list({normalise_text(text): text for text in reversed(list(texts)) if text.strip()}.values())[::-1]


def _fitted(lines: Sequence[str], most_tokens: int, removable: Iterable[int], *, keeps_best: bool = False) -> list[str]:
    """Return the lines within a limit, without the least informative of the removable ones, oldest first.

    `keeps_best`: the best of them always stays.
    """
    over = estimate_tokens("\n".join(lines)) - most_tokens
    if over <= 0:
        return list(lines)
    weakest = sorted(removable, key=lambda at: (weight_of_line(lines[at]), at))
    gone: set[int] = set()
    for at in weakest[:-1] if keeps_best else weakest:
        if over <= 0:
            break
        gone.add(at)
        over -= estimate_tokens(lines[at])
    return [line for at, line in enumerate(lines) if at not in gone]


def _comparable(line: str) -> str:
    """Return a line without its bullet, day and final punctuation, for comparison."""
    return normalise_text(bare_line(line)).rstrip(" .!。！")


def _with_fact(lines: Sequence[str], fact: str) -> list[str]:
    """Return the lines with a fact added: in place of the fact it replaces, or at the end of its section."""
    slot = _slot(fact)
    for at, line in enumerate(lines):
        if slot and POINT.match(line) and _slot(line) == slot:
            return [*lines[:at], fact, *lines[at + 1 :]]
    heading = _SECTIONS[sort_of(words_of_line(fact))]
    start = next((at for at, line in enumerate(lines) if normalise_text(line) == normalise_text(heading)), None)
    if start is None:
        return [*lines, *([""] if lines else []), heading, fact]
    end = next((at for at in range(start + 1, len(lines)) if _HEADING.match(lines[at])), len(lines))
    while end > start + 1 and not lines[end - 1].strip():
        end -= 1
    return [*lines[:end], fact, *lines[end:]]


def _slot(line: str) -> str:
    match = _SLOT.match(_comparable(line))
    return match["slot"] if match else ""


def _own_points(lines: Sequence[str]) -> list[int]:
    """Return the points in the generated sections; a person wrote the rest."""
    own = {normalise_text(heading) for heading in _SECTIONS.values()}
    section, points = "", []
    for at, line in enumerate(lines):
        section = normalise_text(line) if _HEADING.match(line) else section
        if section in own and POINT.match(line):
            points.append(at)
    return points
