"""Rank candidates for a question: search arms, fuse them, walk the graph, and fuse again."""

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from heapq import nlargest, nsmallest
from itertools import islice
from typing import Any, Literal

from treering.core.filters import EVERYTHING, Filter, asked_texts
from treering.ports.passages import PassageHead, PassageRequest, PassagesFound, Reach
from treering.ports.search import GraphView, NamePart, Near, Scored, TextFound, TextRequest
from treering.retrieval import limits
from treering.retrieval.graph.association import Association, Found, associate, without_copies
from treering.retrieval.index.code_places import CODE, NO_PLACE
from treering.retrieval.index.rounds import GraphRequest, ModelRequest, Steps
from treering.retrieval.index.ties import is_turn
from treering.retrieval.search.commit_history import files_by_commits
from treering.retrieval.search.file_ranking import rank_in_files
from treering.retrieval.search.fusion import (
    BRIDGED,
    DATED,
    DEFINES,
    EQUAL_WEIGHTS,
    EXACT,
    FIRST_WEIGHTS,
    NAMED,
    NAMES,
    PLACES,
    QUICK,
    RELEASE,
    TITLE_MATCH,
    VECTORS,
    WALKED,
    WORDS,
    Fused,
    favour,
    fuse,
    lend_to_neighbours,
    put_first,
)
from treering.retrieval.search.question import Arms, Meaning, Question, asks_about_chore, asks_how_to, clues_of, is_long
from treering.retrieval.search.release_sections import release_sections
from treering.retrieval.search.symbols import defining_passages
from treering.retrieval.text.analysis import count_words, index_text
from treering.retrieval.text.typed_words import ids_written
from treering.retrieval.tuning import TUNING

_BY_MEANING = (VECTORS, QUICK)


@dataclass(slots=True)
class Candidates:
    """The passages found for a question, each read once."""

    question: Question
    reach: Reach
    heads: dict[int, PassageHead] = field(default_factory=dict)
    beside: dict[int, Sequence[int]] = field(default_factory=dict)
    """The turns before and after each turn of a conversation."""
    dated: dict[int, float] = field(default_factory=dict)
    """The scores of turns for the days in the question."""
    _asked: set[int] = field(default_factory=set)
    _visible: set[int] = field(default_factory=set)

    def read(self, keys: Iterable[int], *, in_reach: bool = False) -> Steps[set[int]]:
        """Read new passages and their neighbors; return the keys of visible passages.

        `in_reach`: an arm found them, so all of them are visible.
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
        """Return the heads of passages that were read and still exist."""
        return {key: self.heads[key] for key in keys if key in self.heads}


def search_arms(
    question: Question, reach: Reach, *, pool: int = limits.MAX_CANDIDATES_PER_ARM
) -> Steps[dict[str, dict[int, float]]]:
    """Search every arm for `pool` candidates, with the exact cosines of all of them."""
    found: TextFound = yield TextRequest(
        reach,
        pool,
        words=(*question.terms.words, *question.terms.emphasis, *question.terms.phrases),
        words_in=CODE if _may_be_code(reach.where) else "",
        names=_parts_of_names(question),
        place=_place(question.text),
        days=tuple(days for days in question.days if (days.last - days.first).days <= limits.MAX_PERIOD_DAYS),
    )
    # The tests, documents and changelogs of a project have the words more often than its code, and would fill the pool.
    words = _scores(found.words) | _scores(found.words_in)
    arms = {WORDS: words, NAMES: _scores(found.names), PLACES: _scores(found.places)}
    if question.meaning is None:
        return {**arms, DATED: _scores(found.days[:pool])}
    known = set().union(*arms.values(), (hit.key for hit in found.days))
    near: Near = yield question.meaning.request(reach=reach, limit=pool, keys=known)
    cosines = question.meaning.cosines(near)
    arms[DATED] = _scores(nsmallest(pool, found.days, key=lambda hit: -cosines.get(hit.key, 0.0)))
    return {**arms, **_compared(question.meaning, near, near.found.union(*arms.values()))}


def _may_be_code(where: Filter) -> bool:
    """Return whether a filter may pass code: only sources have a role in a project."""
    code = {"type": "source", "role": CODE}
    return where == EVERYTHING or all(
        code.get(name, texts[0] if texts else "") in texts for name, texts in asked_texts(where)
    )


def with_meaning(
    arms: Arms, question: Question, reach: Reach, *, pool: int = limits.MAX_CANDIDATES_PER_ARM
) -> Steps[dict[str, dict[int, float]]]:
    """Return the arms with a new arm of vectors."""
    others = {name: dict(scores) for name, scores in arms.items() if name not in _BY_MEANING}
    if question.meaning is None:
        return others
    near: Near = yield question.meaning.request(reach=reach, limit=pool, keys=set().union(*others.values()))
    return {**others, **_compared(question.meaning, near)}


def _compared(meaning: Meaning, near: Near, keys: Iterable[int] | None = None) -> dict[str, dict[int, float]]:
    """Return the arm of vectors for all keys or some, and the expected cosines of passages of the quick model."""
    arms = {VECTORS: meaning.cosines(near), QUICK: meaning.expected_of(near)}
    selected = {arm: scores if keys is None else _only(scores, keys) for arm, scores in arms.items()}
    return {arm: scores for arm, scores in selected.items() if scores or arm == VECTORS}


def related(question: Question, arms: Arms, candidates: Candidates) -> Arms:
    """Leave out candidates that no other arm found and whose cosine is below related.

    Turns stay, because they are short, full of pronouns, and far from every question.
    """
    vectors, meaning = arms.get(VECTORS, {}), question.meaning
    if meaning is None or not vectors:
        return arms
    by_words = set().union(*(scores for name, scores in arms.items() if name not in _BY_MEANING))
    far = {key for key, score in vectors.items() if key not in by_words and not meaning.is_related(score)}
    if by_words or len(far) < len(vectors):
        far -= {key for key, head in candidates.known(far).items() if is_turn(head)}
    near = {
        name: {key: score for key, score in arms[name].items() if key not in far}
        for name in _BY_MEANING
        if name in arms
    }
    return {**arms, **near}


def widen(
    question: Question, arms: Arms, association: Association, candidates: Candidates, *, chained: bool
) -> Steps[Arms]:
    """Add the arms of the graph, and the exact cosines of passages that only the graph found.

    `chained`: passages answer together by their links, as paragraphs do. Then passages whose title a good passage
    mentions are read too, even if the walk did not reach them.
    """
    known: set[int] = set().union(*arms.values())
    titles = association.title_match
    titled = nlargest(TUNING.question.title_matches if chained else 0, titles, key=lambda key: (titles[key], -key))
    known |= yield from candidates.read((association.walked.keys() | set(titled)) - known)
    by_graph = {
        WALKED: association.walked,
        BRIDGED: association.bridged,
        TITLE_MATCH: association.title_match,
        NAMED: association.named,
    }
    wide = {name: _only(scores, known) for name, scores in by_graph.items()}
    vectors = {name: arms.get(name, {}) for name in _BY_MEANING}
    if question.meaning is not None and (new := known - vectors[VECTORS].keys()):
        near: Near = yield question.meaning.request(reach=candidates.reach, limit=0, keys=new)
        more = _compared(question.meaning, near)
        vectors = {name: {**scores, **more.get(name, {})} for name, scores in vectors.items()}
    return {**arms, **vectors, **wide}


def _parts_of_names(question: Question) -> tuple[NamePart, ...]:
    """Return the names to search as parts of other names.

    The search reads the postings of every trigram, and those of common ones are long. So in a longer question, a name
    that occurs as a whole is left to the word index; a short question may be the beginning of a name.
    """
    names = question.terms.identifiers
    if len(question.text.split()) <= TUNING.question.max_name_words:
        return tuple(NamePart(name) for name in names)
    return tuple(NamePart(name, whole=next(iter(index_text(name).split()), "")) for name in names)


def _place(text: str) -> str:
    """Return the question if it is short enough to be an id, path or title, else an empty text."""
    return text.strip() if len(text.split()) <= TUNING.question.max_place_words else ""


def _only(scores: Mapping[int, float], keys: Iterable[int]) -> dict[int, float]:
    wanted = set(keys)
    return {key: score for key, score in scores.items() if key in wanted}


def _scores(found: Sequence[Scored]) -> dict[int, float]:
    return {hit.key: hit.score for hit in found}


Route = Literal["lookup", "question"]


def route(text: str, arms: Mapping[str, Mapping[int, float]]) -> Route:
    """Return whether a question is a lookup: an id, a path, a title, or a word or two. A walk would only lead away."""
    is_lookup = arms.get(PLACES) or count_words(text) <= TUNING.question.max_lookup_words
    return "lookup" if is_lookup else "question"


Form = Literal["prose", "turn", "code"]
"""The form of a passage, which chooses the weights of the arms."""


@dataclass(frozen=True, slots=True)
class Ranking:
    """Ranked candidates, best first, with their heads and a trace."""

    hits: Sequence[Fused]
    heads: Mapping[int, PassageHead]
    trace: Mapping[str, Any]
    association: Association | None
    beside: Mapping[int, Sequence[int]]
    """The turns before and after turns of a conversation, if they were read."""
    unrelated: bool
    """Whether no passage has a word of the question or is near it, so that these are only the nearest."""


def rank(question: Question, *, reach: Reach, limit: int, deep: bool = False) -> Steps[Ranking]:
    """Rank at least `limit` candidates within reach.

    `deep` searches again with the first hits added to the question, for about six more embeddings.
    """
    candidates = Candidates(question, reach)
    pool = max(limits.MAX_CANDIDATES_PER_ARM, limit)
    arms = yield from search_arms(question, reach, pool=pool)
    kind = route(question.text, arms)
    found = yield from _associate(question, arms, kind, candidates)
    if deep and found.association:
        leads = _leads(found.association, found.ranked, candidates)
        question = yield ModelRequest(partial(question.led_by, leads))
        arms = yield from with_meaning(arms, question, reach, pool=pool)
        found = yield from _associate(question, arms, kind, candidates)
    first = candidates.known(hit.key for hit in found.ranked[: TUNING.question.first_hits])
    form = form_of(first.values(), in_code=_code_answers(found.arms.get(WORDS, {}), candidates))
    weights = _weights(form, found, question.meaning)
    in_project = any(head.place_role != NO_PLACE for head in candidates.heads.values())
    by_files = in_project and form in ("code", None)
    wanted = (limits.FILE_CANDIDATES_FACTOR if by_files else 2) * pool
    ranked, given = found.ranked, found.arms
    if found.association:
        chained = TITLE_MATCH in weights
        given = yield from widen(question, found.arms, found.association, candidates, chained=chained)
    if found.association or by_files:
        ranked = fuse(given, weights, limit=wanted)
    beside = {hit.key: candidates.beside[hit.key] for hit in ranked if hit.key in candidates.beside}
    ranked = lend_to_neighbours(ranked, beside, limit=wanted)
    near = candidates.known(hit.key for hit in ranked)
    clues = clues_of(question.text, near, candidates.dated)
    ranked = favour(ranked, clues, TUNING.clues.weights, limit=wanted if by_files else pool)
    if by_files:
        commits = {} if kind == "lookup" else (yield from files_by_commits(question.terms, reach))
        ranked = rank_in_files(
            ranked,
            near,
            question.terms.words,
            own_scores=_own_scores(given, weights),
            commits=commits,
            how_to=asks_how_to(question.text),
            chore=asks_about_chore(question.text),
        )
        if not is_long(question.text):
            defining = yield from defining_passages(question.text, reach)
            ranked = yield from _with_first(ranked, DEFINES, {head.key for head in defining}, candidates)
    if phrases := _exact_phrases(question.text, in_files=by_files):
        exact = yield from _exact_matches(phrases, reach)
        ranked = (yield from _with_first(ranked, EXACT, exact, candidates))[:pool]
    if in_project:
        sections = yield from release_sections(question, reach)
        ranked = (yield from _with_sections(ranked, sections, candidates))[:pool]
    trace = {
        "terms": {"words": question.terms.words, "identifiers": question.terms.identifiers},
        "route": kind,
        "arms": {name: len(scores) for name, scores in arms.items()},
        "weights": dict(weights),
        "candidates": len(ranked),
        "unrelated": len(arms.get(VECTORS, {})) - (0 if found.unrelated else len(found.arms.get(VECTORS, {}))),
        "graph": _trace_of(found.association) if found.association else _why_not_walked(reach, kind),
    }
    if quick := question.lag.quick:
        trace["vectors"] = f"{quick} of {question.lag.total} passages still have only a vector of the quick model"
    return Ranking(ranked, candidates.heads, trace, found.association, candidates.beside, found.unrelated)


def _with_first(ranked: Sequence[Fused], arm: str, keys: set[int], candidates: Candidates) -> Steps[list[Fused]]:
    """Put the candidates of an arm first, and add those that were not ranked."""
    unranked = yield from candidates.read(keys - {hit.key for hit in ranked}, in_reach=True)
    return put_first([*ranked, *(Fused(key, 0.0, {}) for key in sorted(unranked))], arm, keys)


def _with_sections(ranked: Sequence[Fused], sections: Sequence[int], candidates: Candidates) -> Steps[list[Fused]]:
    """Put passages first in the order given."""
    visible = yield from candidates.read(sections, in_reach=True)
    first = [Fused(key, 1 / rank, {}) for rank, key in enumerate(sections, start=1) if key in visible]
    others = [hit for hit in ranked if hit.key not in visible]
    return put_first([*first, *others], RELEASE, visible)


def form_of(heads: Iterable[PassageHead], *, in_code: bool = False) -> Form | None:
    """Return the form of nearly all of the first passages, best first; `None` if forms are mixed.

    `in_code`: code is among the best. Then the documents of a project count as code, because they are about it.
    """
    forms = [_form(head, in_code=in_code) for head in islice(heads, TUNING.question.first_hits)]
    enough = TUNING.question.min_form_share * len(forms)
    return next((form for form, count in Counter(forms).items() if count >= enough), None)


def _own_scores(arms: Arms, weights: Mapping[str, float]) -> dict[int, float]:
    """Score passages by their words and meaning alone, to add up the scores of a file.

    Names and the graph find several passages of a file at once and would count twice.
    """
    own = {arm: arms.get(arm, {}) for arm in (WORDS, VECTORS, QUICK)}
    return {hit.key: hit.score for hit in fuse(own, weights)}


def _exact_phrases(text: str, *, in_files: bool) -> list[str]:
    """Return the ids in a question and, of a short one about files or in quotes, its whole text.

    A pasted message, heading or line of code usually occurs in one place, and so does an id.
    """
    if is_long(text):
        return []
    whole = index_text(text) if in_files or _is_quote(text) else ""
    is_phrase = len(whole.split()) > TUNING.question.max_lookup_words
    ids = [index_text(one).split()[0] for one in ids_written(text)[: limits.MAX_IDS]]  # the first term is the whole id
    return [*ids, *([whole] if is_phrase else [])]


def _exact_matches(phrases: Iterable[str], reach: Reach) -> Steps[set[int]]:
    """Find passages with a literal phrase. One that many passages contain, such as "run the tests", identifies none."""
    most, keys = TUNING.question.max_exact_passages, set[int]()
    for phrase in phrases:
        found: TextFound = yield TextRequest(reach, most + 1, words=(phrase,))
        if len(found.words) <= most:
            keys |= {hit.key for hit in found.words}
    return keys


def _is_quote(text: str) -> bool:
    """Return whether a question is nothing but a phrase in double quotes.

    In other questions about prose a quoted title identifies one of several passages that answer together.
    """
    return bool(re.fullmatch(r'\s*(?:"[^"]+"|“[^“”]+”)\s*', text))


@dataclass(frozen=True, slots=True)
class _FirstRanking:
    """The related candidates of the arms, ranked, and their association in the graph."""

    arms: Arms
    ranked: list[Fused]
    association: Association | None
    unrelated: bool


def _associate(question: Question, arms: Arms, kind: Route, candidates: Candidates) -> Steps[_FirstRanking]:
    yield from candidates.read(set().union(*arms.values()), in_reach=True)
    near = related(question, arms, candidates)
    ranked = fuse(near, limit=limits.MAX_CANDIDATES_PER_ARM)
    unrelated = not ranked and kind == "question"
    if unrelated:
        near, ranked = arms, fuse(arms, limit=limits.MAX_CANDIDATES_PER_ARM)
    reach = candidates.reach
    # The graph contains only the current state.
    if kind == "lookup" or reach.at is not None or reach.withdrawn or unrelated:
        return _FirstRanking(near, ranked, None, unrelated)
    view: GraphView = yield GraphRequest(reach)
    seeds: Found = [(hit.key, hit.score) for hit in ranked]
    if form_of(candidates.known(hit.key for hit in ranked[: TUNING.question.first_hits]).values()) == "prose":
        seeds = without_copies(seeds, view)
    return _FirstRanking(near, ranked, associate(question.text, question.terms, seeds, view), unrelated)


def _weights(form: Form | None, found: _FirstRanking, meaning: Meaning | None) -> Mapping[str, float]:
    """Choose the weights by form: fitted ones for prose, equal ones for turns, those of code for mixed forms.

    All candidates get the same weights, because scores with different weights cannot be compared: with weights by
    candidate, documents ranked below the code they are about (13 points of reciprocal rank).
    """
    if found.association is None:
        return FIRST_WEIGHTS
    if form == "prose":
        weights = TUNING.fusion.prose_weights
        if meaning is None:
            return weights
        weights = {**weights, VECTORS: weights[VECTORS] * meaning.prose_share}
        # Paragraphs that answer together are found by names rather than by vectors of a quick model.
        return {**weights, QUICK: meaning.quick.prose_share} if meaning.quick else weights
    return EQUAL_WEIGHTS


def _form(head: PassageHead, *, in_code: bool) -> Form:
    if is_turn(head):
        return "turn"
    return "prose" if head.role == "prose" and not (in_code and head.place_role != NO_PLACE) else "code"


def _code_answers(words: Mapping[int, float], candidates: Candidates) -> bool:
    """Return whether the best code has about as good a score by words as the best passage."""
    of_code = [score for key, score in words.items() if (head := candidates.heads.get(key)) and head.place_role == CODE]
    return max(of_code, default=0.0) >= TUNING.question.min_code_share * max(words.values(), default=0.0) > 0


def _leads(association: Association, ranked: Sequence[Fused], candidates: Candidates) -> list[str]:
    """Return the leads of a deep search: the ends of the nearest statements, and the titles of the best passages."""
    facts = association.facts
    names = association.view.names(sorted({end for fact in facts for end in (fact.subject, fact.object)}))
    stated = [f"{names.get(fact.subject, '')} {names.get(fact.object, '')}" for fact in facts]
    best = candidates.known(hit.key for hit in ranked[: TUNING.question.lead_titles])
    titles = [head.title for head in best.values()]
    return list(dict.fromkeys(filter(None, map(str.strip, (*stated, *titles)))))


def _trace_of(association: Association) -> dict[str, Any]:
    """Return the seeds of the walk and the nearest statements, by name."""
    facts = association.facts
    ends = {end for fact in facts for end in (fact.subject, fact.object)}
    names = association.view.names(sorted(ends | association.seeds.keys()))
    return {
        "seeds": {names[node]: round(weight, 6) for node, weight in association.seeds.items() if node in names},
        "facts": [f"{names.get(fact.subject, '')} — {names.get(fact.object, '')} ({fact.score:.3f})" for fact in facts],
        "reached": len(association.walked),
    }


def _why_not_walked(reach: Reach, kind: Route) -> str:
    if reach.at is not None or reach.withdrawn:
        return "not walked: it covers only the current state"
    return "not walked: a lookup needs none" if kind == "lookup" else "not walked: there is no starting point"
