"""The sentences of a memory, with speakers as data: the form of a text alone names no speaker."""

import re
from collections.abc import Sequence

from treering.core.objects import Utterance
from treering.extensions.discussions.generators.generator import GeneratedMemory
from treering.extensions.statements.extractive import Sentence, sentence_of, sentences_of, split_sentences, told


def utterances_of(sentences: Sequence[Sentence]) -> tuple[Utterance, ...]:
    """Return sentences in the form that a memory stores."""
    return tuple(Utterance(text=one.text, speaker=one.speaker, day=one.when, message=one.message) for one in sentences)


def sentences_in(memory: GeneratedMemory) -> list[Sentence]:
    """Return the sentences of a memory with weights; without utterances, those of its summary, without speakers."""
    if not memory.utterances:
        return sentences_of(memory.summary)
    return [sentence_of(one.text, one.speaker, one.day, one.message) for one in memory.utterances]


def lines_of(memory: GeneratedMemory) -> list[str]:
    """Return a memory line by line: each utterance with its day and speaker, or each sentence of its summary."""
    if not memory.utterances:
        return split_sentences(memory.summary)
    return [told([one]) for one in sentences_in(memory)]


def bare_line(line: str) -> str:
    """Return a line without its bullet and its day."""
    return _DAY.sub("", POINT.sub("", line))


def words_of_line(line: str) -> str:
    """Return a line also without its possible speaker, for weighing; a line does not prove who spoke."""
    return _SPEAKER.sub("", bare_line(line))


def weight_of_line(line: str) -> float:
    """Return how informative a line is."""
    opening = _SPEAKER.match(bare_line(line))
    speaker = opening[0].removesuffix(": ") if opening else ""
    return max((one.weight for one in sentences_of(words_of_line(line), speaker=speaker)), default=0.0)


POINT = re.compile(r"^\s*[-*•]\s+")
_DAY = re.compile(r"^\[\d{4}-\d\d-\d\d(?: \d\d:\d\d)?\] ?")
_SPEAKER = re.compile(r"^[^\n:]{1,60}: ")
