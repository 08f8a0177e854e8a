"""The arms of a search: candidates by words, names, places, meaning, and what the graph adds to them."""

from collections.abc import Iterable, Sequence
from datetime import timedelta
from heapq import nsmallest

from treering.derived.analysis import index_text
from treering.derived.association import Association
from treering.derived.fusion import BRIDGED, DATED, NAMED, NAMES, PLACES, POOL, TITLE_MATCH, VECTORS, WALKED, WORDS
from treering.derived.question import Arms, Question
from treering.derived.ties import is_turn
from treering.ports.index import Index, PassageHead, Scored, TextQuery
from treering.ports.reach import Reach

_MOST_DATED = 2_000
_LONG = timedelta(days=100)
_PLACE_WORDS = 6
_PART_WORDS = 3


class Heads:
    """Heads of passages, each read once per question."""

    def __init__(self, index: Index) -> None:
        self._index = index
        self._read: dict[int, PassageHead] = {}

    def of(self, keys: Iterable[int]) -> dict[int, PassageHead]:
        """Return the heads of passages; what is gone meanwhile has none."""
        wanted = list(keys)
        self._read |= self._index.heads([key for key in wanted if key not in self._read])
        return {key: self._read[key] for key in wanted if key in self._read}


def search_arms(question: Question, *, index: Index, reach: Reach) -> dict[str, dict[int, float]]:
    """Ask every arm for candidates, then fill in the exact cosine of all of them."""
    arms = {
        WORDS: _scores(index.by_words(question.terms, reach=reach, limit=POOL)),
        NAMES: _scores(index.by_names(_parts_of_names(question, index, reach), reach=reach, limit=POOL)),
        PLACES: _scores(_places(question.text, index, reach)),
        DATED: _dated(question, index, reach),
    }
    return with_meaning(arms, question, index=index, reach=reach)


def with_meaning(arms: Arms, question: Question, *, index: Index, reach: Reach) -> dict[str, dict[int, float]]:
    """Return the arms with the one of vectors made anew."""
    others = {name: dict(scores) for name, scores in arms.items() if name != VECTORS}
    if question.meaning is None:
        return others
    near = question.meaning.search(index, reach=reach, limit=POOL)
    rest = sorted(set().union(*others.values()) - near.keys())
    return {**others, VECTORS: {**near, **question.meaning.similarities(index, rest)}}


def related(question: Question, arms: Arms, heads: Heads) -> Arms:
    """Leave out candidates that share nothing with the question but being the nearest there is.

    Turns stay: short and full of pronouns, they are far from every question.
    """
    vectors, meaning = arms.get(VECTORS, {}), question.meaning
    if meaning is None or not vectors:
        return arms
    found = set().union(*(scores for name, scores in arms.items() if name != VECTORS))
    far = {key for key, score in vectors.items() if key not in found and not meaning.is_related(score)}
    if found or len(far) < len(vectors):
        far -= {key for key, head in heads.of(sorted(far)).items() if is_turn(head)}
    return {**arms, VECTORS: {key: score for key, score in vectors.items() if key not in far}}


def widen(question: Question, arms: Arms, association: Association, *, index: Index, reach: Reach) -> Arms:
    """Add to the arms what the graph found, and the exact cosine of what only it found."""
    known: set[int] = set().union(*arms.values())
    known |= index.visible(sorted(association.walked.keys() - known), reach=reach)
    by_graph = {
        WALKED: association.walked,
        BRIDGED: association.bridged,
        TITLE_MATCH: association.title_match,
        NAMED: association.named,
    }
    wide = {name: {key: score for key, score in scores.items() if key in known} for name, scores in by_graph.items()}
    vectors = arms.get(VECTORS, {})
    if question.meaning is not None:
        vectors = {**vectors, **question.meaning.similarities(index, sorted(known - vectors.keys()))}
    return {**arms, VECTORS: vectors, **wide}


def _parts_of_names(question: Question, index: Index, reach: Reach) -> TextQuery:
    """Return the names to look for as parts of others.

    Looking for a part walks the postings of every three characters of it, which for common ones are long. So in a
    longer question a name that occurs whole is left to the words; a short one may be the beginning of a name.
    """
    names = question.terms.identifiers
    if len(question.text.split()) <= _PART_WORDS:
        return TextQuery(identifiers=names)
    wholes = {name: words[0] for name in names if (words := index_text(name).split())}
    known = index.knows(sorted(set(wholes.values())), reach=reach)
    return TextQuery(identifiers=tuple(name for name in names if wholes.get(name) not in known))


def _places(text: str, index: Index, reach: Reach) -> Sequence[Scored]:
    """Look for an exact id, path or title; a question in many words names none."""
    return index.by_place(text.strip(), reach=reach, limit=POOL) if len(text.split()) <= _PLACE_WORDS else ()


def _dated(question: Question, index: Index, reach: Reach) -> dict[int, float]:
    """Return turns of the time asked about: of many the ones nearest to the question in meaning.

    Of a long time there are so many that it says little; looking at all of them costs what there is.
    """
    short = [days for days in question.days if days.last - days.first <= _LONG]
    found = index.by_days(short, reach=reach, limit=_MOST_DATED) if short else ()
    near = question.meaning.similarities(index, sorted(hit.key for hit in found)) if question.meaning else {}
    return _scores(nsmallest(POOL, found, key=lambda hit: -near.get(hit.key, 0.0)))


def _scores(found: Sequence[Scored]) -> dict[int, float]:
    return {hit.key: hit.score for hit in found}
