"""Reading given messages like a stored discussion. Nothing is stored."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from itertools import count

from treering.core.canonical import chain_hashes
from treering.extensions.discussions.generators.built_in import BuiltInGenerator
from treering.extensions.discussions.generators.generator import GeneratedMemory, Generator
from treering.extensions.discussions.keywords import Keyword, KeywordText, is_question, keywords_of
from treering.extensions.discussions.log.blocks import StoredMessage
from treering.extensions.discussions.log.snapshot import LogEntry
from treering.extensions.discussions.log.transcript import transcript_of
from treering.extensions.discussions.search import DiscussionHit, DiscussionSearch, names_of, ranked_by_age
from treering.extensions.discussions.summaries.memories import Memory
from treering.retrieval.index.word_table import bm25
from treering.retrieval.text.analysis import query_terms
from treering.retrieval.tuning import TUNING
from treering.verbs.ingest.turns import Message


class StatelessDiscussion:
    """A discussion that is not stored, with the reading methods of `Discussion`: its messages serve as its memories.

    Each object makes its own summary: by rules without a refresh, by the generator with one.
    """

    def __init__(self, messages: Sequence[Message], *, generator: Generator | None = None) -> None:
        transcript = transcript_of(messages)
        chains = chain_hashes(one.key for one in transcript)
        self._messages = [_message(*one) for one in zip(count(), transcript, chains, strict=False)]
        self._generator = generator or BuiltInGenerator()
        self._summary = ""

    def recent_memories(self, count: int, *, skip: int = 0) -> list[Memory]:
        """Return the last `count` messages before the last `skip`, oldest first."""
        end = max(0, len(self._messages) - skip)
        return [_memory(message) for message in self._messages[max(0, end - count) : end]]

    def all_memories(self) -> list[Memory]:
        """Return all messages."""
        return [_memory(message) for message in self._messages]

    def newer_memories(self) -> list[Memory]:
        """Return all messages, because no summary covers them."""
        return self.all_memories()

    def search(self, query: str, options: DiscussionSearch) -> list[DiscussionHit]:
        """Find messages, best first: by keywords, or by words in the other modes and for a question."""
        keywords = keywords_of(query, most=options.max_keywords) if options.mode == "keywords" else []
        hits = self._with_keywords(keywords, options)
        if not hits and (not keywords or is_question(query)):
            terms = [Counter(text.terms.split()) for text in self._texts()]
            hits = self._hits(_scores(terms, query_terms(query).words), options)
        if options.expand_entities and len(hits) < options.limit:
            hits += self._relatives(hits, options)
        return hits[: options.limit]

    def summary(self, *, refresh: bool = False) -> str:
        """Return a summary of the messages, made by the generator if `refresh`, else by rules."""
        return self.fold_summary() if refresh else self._summary or self._folded(BuiltInGenerator())

    def fold_summary(self) -> str:
        """Make a summary of the messages with the generator; an empty answer changes nothing."""
        self._summary = self._folded(self._generator) or self._summary
        return self._summary

    def write_summary(self, text: str) -> str:
        """Set the summary of this object, and return the current one; an empty text changes nothing."""
        self._summary = text.strip() or self._summary
        return self._summary

    def state(self) -> str:
        """Return an empty text: only stored discussions have a state document."""
        return ""

    def messages(self) -> list[StoredMessage]:
        """Return all messages."""
        return list(self._messages)

    def last_messages(self, count: int) -> list[StoredMessage]:
        """Return the last messages."""
        return self._messages[max(0, len(self._messages) - count) :]

    def _folded(self, generator: Generator) -> str:
        items = [memory.item for memory in self.all_memories()]
        return generator.fold("", items).text.strip() if items else ""

    def _hits(self, scores: Sequence[float], options: DiscussionSearch) -> list[DiscussionHit]:
        pairs = zip(self._messages, scores, strict=False)
        hits = [_turn(message, score) for message, score in pairs if score > 0 and options.passes(message.at)]
        return ranked_by_age(hits, options.recency)

    def _with_keywords(self, keywords: Sequence[Keyword], options: DiscussionSearch) -> list[DiscussionHit]:
        terms = [Counter(one.folded for one in keywords if text.hold(one)) for text in self._texts()]
        return self._hits(_scores(terms, [one.folded for one in keywords]), options)

    def _texts(self) -> list[KeywordText]:
        return [KeywordText(f"{message.speaker}\n{message.text}") for message in self._messages]

    def _relatives(self, hits: Sequence[DiscussionHit], options: DiscussionSearch) -> list[DiscussionHit]:
        """Return messages that share names with the best hits."""
        names = dict.fromkeys(name for hit in hits[: TUNING.conversations.leading] for name in names_of(hit))
        keywords = keywords_of("; ".join(names), most=options.max_keywords)
        known = {hit.id for hit in hits}
        lowest = min((hit.score for hit in hits), default=1.0)
        related = self._with_keywords(keywords, options)
        return [replace(hit, score=min(hit.score, lowest)) for hit in related if hit.id not in known]


def _message(position: int, entry: LogEntry, chain: str) -> StoredMessage:
    message = entry.message
    return StoredMessage(
        position, entry.role, message.speaker, message.content, entry.at, chain, source_id="", segment_ids=()
    )


def _memory(message: StoredMessage) -> Memory:
    text = f"{message.speaker}: {message.text}" if message.speaker else message.text
    item = GeneratedMemory(title=(message.speaker or _MESSAGE)[:_TITLE_CHARS], summary=text)
    position = message.position
    return Memory(f"{_MESSAGE} {position}", item, first=position, last=position, at=message.at)


def _turn(message: StoredMessage, score: float) -> DiscussionHit:
    return DiscussionHit(
        kind="turn",
        id=f"{_MESSAGE} {message.position}",
        first=message.position,
        last=message.position,
        text=message.text,
        score=score,
        speaker=message.speaker,
        at=message.at,
    )


def _scores(texts: Sequence[Counter[str]], terms: Sequence[str]) -> list[float]:
    """Score texts by the terms they contain; rare terms count more."""
    weights = bm25(texts)
    scores = [0.0] * len(texts)
    for term in dict.fromkeys(terms):
        for place, weight in weights.get(term, ()):
            scores[place] += weight
    return scores


_MESSAGE = "message"
_TITLE_CHARS = 300
