"""Messages at hand, read as a discussion is read. Nothing of it touches storage."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from math import log

from treering.core.canonical import chain_hashes
from treering.extensions.discussions.generators.built_in import BuiltInGenerator
from treering.extensions.discussions.generators.generator import GeneratedMemory, Generator
from treering.extensions.discussions.keywords import KeywordText, is_question, keywords_of
from treering.extensions.discussions.log.blocks import StoredMessage
from treering.extensions.discussions.log.message_log import TranscriptMessage, transcript_of
from treering.extensions.discussions.search import DiscussionHit, DiscussionSearch, names_of, ranked_by_age
from treering.extensions.discussions.summaries.memories import Memory
from treering.retrieval.text.analysis import query_terms
from treering.retrieval.tuning import TUNING
from treering.verbs.ingest.turns import Message


class StatelessDiscussion:
    """A discussion that is not kept: its messages stand for its memories. `memory.Recollection` for them.

    Its summary is made anew for every object; without a refresh by rules, and never by a model.
    """

    def __init__(self, messages: Sequence[Message], *, generator: Generator | None = None) -> None:
        told = transcript_of(messages)
        chains = chain_hashes(one.key for one in told)
        self._kept = [_kept(at, one, chain) for at, (one, chain) in enumerate(zip(told, chains, strict=True))]
        self._generator: Generator = generator or BuiltInGenerator()
        self._summary = ""

    def recent_memories(self, count: int, *, skip: int = 0) -> list[Memory]:
        """Return the last `count` messages but the last `skip`, oldest first."""
        end = max(0, len(self._kept) - skip)
        return [_memory(kept) for kept in self._kept[max(0, end - count) : end]]

    def all_memories(self) -> list[Memory]:
        """Return all messages."""
        return [_memory(kept) for kept in self._kept]

    def newer_memories(self) -> list[Memory]:
        """Return all messages, for no summary tells of them."""
        return self.all_memories()

    def search(self, query: str, options: DiscussionSearch) -> list[DiscussionHit]:
        """Find messages by keywords, or by words in the other modes and for a question, best first."""
        keywords = keywords_of(query, most=options.max_keywords) if options.mode == "keywords" else []
        texts = [KeywordText(f"{kept.speaker}\n{kept.text}") for kept in self._kept]
        found = self._found(_by_keywords([[words.hold(keyword) for keyword in keywords] for words in texts]), options)
        if not found and (not keywords or is_question(query)):
            terms = query_terms(query).words
            found = self._found(_by_words(terms, [words.terms.split() for words in texts]), options)
        if options.expand_entities and len(found) < options.limit:
            found += self._relatives(found, texts, options)
        return found[: options.limit]

    def summary(self, *, refresh: bool = False) -> str:
        """Return a summary of the messages, made by the generator where a fresh one is asked for."""
        if refresh:
            return self.fold_summary()
        return self._summary or self._folded(BuiltInGenerator())

    def fold_summary(self) -> str:
        """Make a summary of the messages; an empty answer changes nothing."""
        self._summary = self._folded(self._generator) or self._summary
        return self._summary

    def write_summary(self, text: str) -> str:
        """Take a summary for as long as this object lives; an empty one changes nothing. Give the one that stands."""
        self._summary = text.strip() or self._summary
        return self._summary

    def state(self) -> str:
        """Return nothing: what is true now is kept only with a discussion."""
        return ""

    def messages(self) -> list[StoredMessage]:
        """Return all messages."""
        return list(self._kept)

    def last_messages(self, count: int) -> list[StoredMessage]:
        """Return the last messages."""
        return self._kept[max(0, len(self._kept) - count) :]

    def _folded(self, generator: Generator) -> str:
        items = [memory.item for memory in self.all_memories()]
        return generator.fold("", items).text.strip() if items else ""

    def _found(self, scores: Sequence[float], options: DiscussionSearch) -> list[DiscussionHit]:
        pairs = zip(self._kept, scores, strict=False)
        found = [_turn(kept, score) for kept, score in pairs if score > 0 and options.passes(kept.at)]
        return ranked_by_age(found, options.recency)

    def _relatives(
        self, found: Sequence[DiscussionHit], texts: Sequence[KeywordText], options: DiscussionSearch
    ) -> list[DiscussionHit]:
        """Return what shares names with the best that was found."""
        names = dict.fromkeys(name for one in found[: TUNING.conversations.leading] for name in names_of(one))
        keywords = keywords_of("; ".join(names), most=options.max_keywords)
        known = {one.id for one in found}
        related = self._found(_by_keywords([[words.hold(keyword) for keyword in keywords] for words in texts]), options)
        least = min((one.score for one in found), default=1.0)
        return [replace(one, score=min(one.score, least)) for one in related if one.id not in known]


def _kept(position: int, told: TranscriptMessage, chain: str) -> StoredMessage:
    message = told.message
    return StoredMessage(
        position, told.role, message.speaker, message.content, told.at, chain, source_id="", segment_ids=()
    )


def _memory(kept: StoredMessage) -> Memory:
    item = GeneratedMemory(title=(kept.speaker or _MESSAGE)[:_TITLE_CHARS], summary=_said(kept))
    return Memory(f"{_MESSAGE} {kept.position}", item, first=kept.position, last=kept.position, at=kept.at)


def _said(kept: StoredMessage) -> str:
    return f"{kept.speaker}: {kept.text}" if kept.speaker else kept.text


def _turn(kept: StoredMessage, score: float) -> DiscussionHit:
    return DiscussionHit(
        kind="turn",
        id=f"{_MESSAGE} {kept.position}",
        first=kept.position,
        last=kept.position,
        text=kept.text,
        score=score,
        speaker=kept.speaker,
        at=kept.at,
    )


def _by_keywords(held: Sequence[Sequence[bool]]) -> list[float]:
    """Score texts by the keywords they hold: the rarer one is, the more it counts."""
    counts = [sum(column) for column in zip(*held, strict=True)]
    rarity = [log(1 + len(held) / count) if count else 0.0 for count in counts]
    return [sum(weight for weight, hit in zip(rarity, row, strict=True) if hit) for row in held]


def _by_words(terms: Sequence[str], texts: Sequence[Sequence[str]]) -> list[float]:
    """Score texts by BM25 (Robertson and Zaragoza 2009)."""
    counted = [Counter(text) for text in texts]
    mean = sum(map(len, texts)) / len(texts) if texts else 0.0
    rarity = {term: _rarity(sum(term in text for text in counted), len(texts)) for term in terms}
    return [
        sum(weight * _saturated(text[term], text.total() / mean) for term, weight in rarity.items() if text[term])
        for text in counted
    ]


def _rarity(count: int, of: int) -> float:
    return log(1 + (of - count + 0.5) / (count + 0.5))


def _saturated(count: int, length: float) -> float:
    return count * (_K1 + 1) / (count + _K1 * (1 - _B + _B * length))


_K1 = 1.2
_B = 0.75
_MESSAGE = "message"
_TITLE_CHARS = 300
