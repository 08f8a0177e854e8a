"""The arms of a search: candidates by words, names, places, meaning, and what the graph adds to them."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from heapq import nsmallest

from treering.core.filters import Filter, asked_texts
from treering.derived.analysis import index_text
from treering.derived.association import Association
from treering.derived.fusion import BRIDGED, DATED, NAMED, NAMES, PLACES, POOL, TITLE_MATCH, VECTORS, WALKED, WORDS
from treering.derived.question import Arms, Question
from treering.derived.roles import CODE
from treering.derived.rounds import Steps
from treering.derived.ties import is_turn
from treering.ports.passages import PassageHead, PassageRequest, PassagesFound
from treering.ports.reach import Reach
from treering.ports.text import NamePart, Scored, TextFound, TextRequest
from treering.ports.vectors import Near

_LONG = timedelta(days=100)
_PLACE_WORDS = 6
_PART_WORDS = 3


@dataclass(slots=True)
class Candidates:
    """What was read of the passages that one question found, each once."""

    question: Question
    reach: Reach
    heads: dict[int, PassageHead] = field(default_factory=dict)
    beside: dict[int, Sequence[int]] = field(default_factory=dict)
    """The turns before and after each turn of a conversation."""
    dated: dict[int, float] = field(default_factory=dict)
    """How well turns tell of the days asked for."""
    _asked: set[int] = field(default_factory=set)
    _visible: set[int] = field(default_factory=set)

    def read(self, keys: Iterable[int], *, in_reach: bool = False) -> Steps[set[int]]:
        """Read passages that were not read so far, and what stands beside them; return those that may be seen.

        `in_reach`: an arm found them, which shows only what may be seen.
        """
        wanted = set(keys)
        if new := tuple(sorted(wanted - self._asked)):
            reach = None if in_reach else self.reach
            found: PassagesFound = yield PassageRequest(new, reach, self.question.days, beside=True)
            self._asked.update(new)
            self._visible |= found.heads.keys() & set(new) if in_reach else found.visible
            self.heads |= found.heads
            self.beside |= found.beside
            self.dated |= found.dated
        return wanted & self._visible

    def known(self, keys: Iterable[int]) -> dict[int, PassageHead]:
        """Return the heads of passages that were read; what is gone meanwhile has none."""
        return {key: self.heads[key] for key in keys if key in self.heads}


def search_arms(question: Question, reach: Reach, *, pool: int = POOL) -> Steps[dict[str, dict[int, float]]]:
    """Ask every arm for `pool` candidates, with the exact cosine of all of them."""
    found: TextFound = yield TextRequest(
        reach,
        pool,
        words=(*question.terms.words, *question.terms.emphasis, *question.terms.phrases),
        words_in=CODE if _may_be_code(reach.where) else "",
        names=_parts_of_names(question),
        place=_place(question.text),
        days=tuple(days for days in question.days if days.last - days.first <= _LONG),
    )
    # The tests, documents and changelogs of a project say the words more often than its code, and would fill the pool.
    words = _scores(found.words) | _scores(found.words_in)
    arms = {WORDS: words, NAMES: _scores(found.names), PLACES: _scores(found.places)}
    if question.meaning is None:
        return {**arms, DATED: _scores(found.days[:pool])}
    known = set().union(*arms.values(), (hit.key for hit in found.days))
    near: Near = yield question.meaning.request(reach=reach, limit=pool, keys=known)
    cosines = question.meaning.cosines(near)
    arms[DATED] = _scores(nsmallest(pool, found.days, key=lambda hit: -cosines.get(hit.key, 0.0)))
    return {**arms, VECTORS: _kept(cosines, near.found.union(*arms.values()))}


def _may_be_code(where: Filter) -> bool:
    """Tell whether a filter leaves code in reach: only sources have a role of places."""
    code = {"type": "source", "role": CODE}
    return all(code.get(name, texts[0] if texts else "") in texts for name, texts in asked_texts(where))


def with_meaning(
    arms: Arms, question: Question, reach: Reach, *, pool: int = POOL
) -> Steps[dict[str, dict[int, float]]]:
    """Return the arms with the one of vectors made anew."""
    others = {name: dict(scores) for name, scores in arms.items() if name != VECTORS}
    if question.meaning is None:
        return others
    near: Near = yield question.meaning.request(reach=reach, limit=pool, keys=set().union(*others.values()))
    return {**others, VECTORS: question.meaning.cosines(near)}


def related(question: Question, arms: Arms, candidates: Candidates) -> Arms:
    """Leave out candidates that share nothing with the question but being the nearest there is.

    Turns stay: short and full of pronouns, they are far from every question.
    """
    vectors, meaning = arms.get(VECTORS, {}), question.meaning
    if meaning is None or not vectors:
        return arms
    found = set().union(*(scores for name, scores in arms.items() if name != VECTORS))
    far = {key for key, score in vectors.items() if key not in found and not meaning.is_related(score)}
    if found or len(far) < len(vectors):
        far -= {key for key, head in candidates.known(far).items() if is_turn(head)}
    return {**arms, VECTORS: {key: score for key, score in vectors.items() if key not in far}}


def widen(question: Question, arms: Arms, association: Association, candidates: Candidates) -> Steps[Arms]:
    """Add to the arms what the graph found, and the exact cosine of what only it found."""
    known: set[int] = set().union(*arms.values())
    known |= yield from candidates.read(association.walked.keys() - known)
    by_graph = {
        WALKED: association.walked,
        BRIDGED: association.bridged,
        TITLE_MATCH: association.title_match,
        NAMED: association.named,
    }
    wide = {name: _kept(scores, known) for name, scores in by_graph.items()}
    vectors = arms.get(VECTORS, {})
    if question.meaning is not None and (new := known - vectors.keys()):
        near: Near = yield question.meaning.request(reach=candidates.reach, limit=0, keys=new)
        vectors = {**vectors, **question.meaning.cosines(near)}
    return {**arms, VECTORS: vectors, **wide}


def _parts_of_names(question: Question) -> tuple[NamePart, ...]:
    """Return the names to look for as parts of others.

    Looking for a part walks the postings of every three characters of it, which for common ones are long. So in a
    longer question a name that occurs whole is left to the words; a short one may be the beginning of a name.
    """
    names = question.terms.identifiers
    if len(question.text.split()) <= _PART_WORDS:
        return tuple(NamePart(name) for name in names)
    return tuple(NamePart(name, whole=next(iter(index_text(name).split()), "")) for name in names)


def _place(text: str) -> str:
    """Return the exact id, path or title a question may be; one in many words names none."""
    return text.strip() if len(text.split()) <= _PLACE_WORDS else ""


def _kept(scores: Mapping[int, float], keys: Iterable[int]) -> dict[int, float]:
    wanted = set(keys)
    return {key: score for key, score in scores.items() if key in wanted}


def _scores(found: Sequence[Scored]) -> dict[int, float]:
    return {hit.key: hit.score for hit in found}
