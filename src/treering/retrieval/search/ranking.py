"""From a question to ranked candidates: arms, fusion, the graph, and fusion again. Functions on values, in steps."""

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
from treering.retrieval.graph.association import Association, associate
from treering.retrieval.index.code_places import CODE, NO_PLACE
from treering.retrieval.index.rounds import GraphRequest, ModelRequest, Steps
from treering.retrieval.index.ties import is_turn
from treering.retrieval.search.commit_history import files_by_commits
from treering.retrieval.search.file_ranking import FileEvidence, rank_in_files
from treering.retrieval.search.fusion import (
    BRIDGED,
    DATED,
    EXACT,
    NAMED,
    NAMES,
    PLACES,
    QUICK,
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
from treering.retrieval.search.question import Arms, Meaning, Question, clues_of, thread_clue
from treering.retrieval.text.analysis import count_words, index_text
from treering.retrieval.tuning import TUNING

# The arms of a search: candidates by words, names, places, meaning, and what the graph adds to them.


_BY_MEANING = (VECTORS, QUICK)


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


def search_arms(
    question: Question, reach: Reach, *, pool: int = TUNING.fusion.pool
) -> Steps[dict[str, dict[int, float]]]:
    """Ask every arm for `pool` candidates, with the exact cosine of all of them."""
    found: TextFound = yield TextRequest(
        reach,
        pool,
        words=(*question.terms.words, *question.terms.emphasis, *question.terms.phrases),
        words_in=CODE if _may_be_code(reach.where) else "",
        names=_parts_of_names(question),
        place=_place(question.text),
        days=tuple(days for days in question.days if (days.last - days.first).days <= TUNING.clues.max_period_days),
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
    return {**arms, **_compared(question.meaning, near, near.found.union(*arms.values()))}


def _may_be_code(where: Filter) -> bool:
    """Tell whether a filter leaves code in reach: only sources have a role of places."""
    code = {"type": "source", "role": CODE}
    return where == EVERYTHING or all(
        code.get(name, texts[0] if texts else "") in texts for name, texts in asked_texts(where)
    )


def with_meaning(
    arms: Arms, question: Question, reach: Reach, *, pool: int = TUNING.fusion.pool
) -> Steps[dict[str, dict[int, float]]]:
    """Return the arms with the one of vectors made anew."""
    others = {name: dict(scores) for name, scores in arms.items() if name not in _BY_MEANING}
    if question.meaning is None:
        return others
    near: Near = yield question.meaning.request(reach=reach, limit=pool, keys=set().union(*others.values()))
    return {**others, **_compared(question.meaning, near)}


def _compared(meaning: Meaning, near: Near, keys: Iterable[int] | None = None) -> dict[str, dict[int, float]]:
    """Return the arm of vectors, of some keys or all, and what of it only the quick model says."""
    found = {VECTORS: meaning.cosines(near), QUICK: meaning.expected_of(near)}
    kept = {arm: scores if keys is None else _kept(scores, keys) for arm, scores in found.items()}
    return {arm: scores for arm, scores in kept.items() if scores or arm == VECTORS}


def related(question: Question, arms: Arms, candidates: Candidates) -> Arms:
    """Leave out candidates that share nothing with the question but being the nearest there is.

    Turns stay: short and full of pronouns, they are far from every question.
    """
    vectors, meaning = arms.get(VECTORS, {}), question.meaning
    if meaning is None or not vectors:
        return arms
    found = set().union(*(scores for name, scores in arms.items() if name not in _BY_MEANING))
    far = {key for key, score in vectors.items() if key not in found and not meaning.is_related(score)}
    if found or len(far) < len(vectors):
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
    """Add to the arms what the graph found, and the exact cosine of what only it found.

    `chained`: passages answer together by what links them, as paragraphs do. What is called as a good passage says
    is read too then, wherever the walk left it: by itself it looks like no answer.
    """
    known: set[int] = set().union(*arms.values())
    titles = association.title_match
    called = nlargest(TUNING.question.title_matches if chained else 0, titles, key=lambda key: (titles[key], -key))
    known |= yield from candidates.read((association.walked.keys() | set(called)) - known)
    by_graph = {
        WALKED: association.walked,
        BRIDGED: association.bridged,
        TITLE_MATCH: association.title_match,
        NAMED: association.named,
    }
    wide = {name: _kept(scores, known) for name, scores in by_graph.items()}
    vectors = {name: arms.get(name, {}) for name in _BY_MEANING}
    if question.meaning is not None and (new := known - vectors[VECTORS].keys()):
        near: Near = yield question.meaning.request(reach=candidates.reach, limit=0, keys=new)
        more = _compared(question.meaning, near)
        vectors = {name: {**scores, **more.get(name, {})} for name, scores in vectors.items()}
    return {**arms, **vectors, **wide}


def _parts_of_names(question: Question) -> tuple[NamePart, ...]:
    """Return the names to look for as parts of others.

    Looking for a part walks the postings of every three characters of it, which for common ones are long. So in a
    longer question a name that occurs whole is left to the words; a short one may be the beginning of a name.
    """
    names = question.terms.identifiers
    if len(question.text.split()) <= TUNING.question.max_name_part_words:
        return tuple(NamePart(name) for name in names)
    return tuple(NamePart(name, whole=next(iter(index_text(name).split()), "")) for name in names)


def _place(text: str) -> str:
    """Return the exact id, path or title a question may be; one in many words names none."""
    return text.strip() if len(text.split()) <= TUNING.question.max_place_words else ""


def _kept(scores: Mapping[int, float], keys: Iterable[int]) -> dict[int, float]:
    wanted = set(keys)
    return {key: score for key, score in scores.items() if key in wanted}


def _scores(found: Sequence[Scored]) -> dict[int, float]:
    return {hit.key: hit.score for hit in found}


# What kind of question is asked, and so which arms serve it.


Route = Literal["lookup", "comparison", "question"]

_COMPARING = re.compile(r"\b(?:both|either|same|common|or|which (?:of|one))\b", re.IGNORECASE)
_YES_OR_NO = re.compile(r"(?:are|is|were|was|do|does|did|have|has|can)\b", re.IGNORECASE)
_DEGREE = re.compile(r"\b(?:more|less|\w+er)\b", re.IGNORECASE)
_AND = re.compile(r"\band\b", re.IGNORECASE)
_JOINED = re.compile(r"\b(?:and|than)\b", re.IGNORECASE)


def route(text: str, arms: Mapping[str, Mapping[int, float]]) -> Route:
    """Tell a lookup (an id, a path, a title, or a word or two), a comparison ("which of A and B …"), or neither.

    A lookup is served by what it names; a walk would only lead away. A comparison names all it needs, so nothing
    has to be bridged, provided that it names two things that are known.
    """
    if arms.get(PLACES) or count_words(text) <= TUNING.question.max_lookup_words:
        return "lookup"
    return "comparison" if _compares(text) else "question"


def _compares(text: str) -> bool:
    """Tell whether two things are compared: "both", "is A older than B", "are A and B".

    In steps: one pattern of the form "a word, anything, another word" takes the square of a long line.
    """
    lines = text.split("\n")
    return bool(
        _COMPARING.search(text)
        or (_YES_OR_NO.match(lines[0]) and _AND.search(lines[0]))
        or any((degree := _DEGREE.search(line)) and _JOINED.search(line, degree.end()) for line in lines)
    )


Form = Literal["prose", "turn", "code"]
"""What a passage is, for weighing: prose, a turn of a conversation, or code."""


@dataclass(frozen=True, slots=True)
class Ranking:
    """Candidates, best first, with the heads of all of them, and how they came to be."""

    hits: Sequence[Fused]
    heads: Mapping[int, PassageHead]
    trace: Mapping[str, Any]
    association: Association | None
    beside: Mapping[int, Sequence[int]]
    """The turns before and after turns of a conversation, as far as they were read."""


def rank(question: Question, *, reach: Reach, limit: int, deep: bool = False) -> Steps[Ranking]:
    """Rank at least `limit` candidates within reach.

    `deep` asks again with what was found first added to the question, for some six more encodings.
    """
    candidates = Candidates(question, reach)
    pool = max(TUNING.fusion.pool, limit)
    arms = yield from search_arms(question, reach, pool=pool)
    kind = route(question.text, arms)
    found = yield from _found(question, arms, kind, candidates)
    if deep and found.association:
        leads = _leads(found.association, found.ranked, candidates)
        question = yield ModelRequest(partial(question.led_by, leads))
        arms = yield from with_meaning(arms, question, reach, pool=pool)
        found = yield from _found(question, arms, kind, candidates)
    first = candidates.known(hit.key for hit in found.ranked[: TUNING.question.form_hits])
    form = form_of(first.values(), in_code=_code_answers(found.arms.get(WORDS, {}), candidates))
    weights = _weights(kind, form, found, question.meaning)
    by_files = form in ("code", None) and any(head.place_role != NO_PLACE for head in candidates.heads.values())
    wanted = (TUNING.candidates.per_pool_in_files if by_files else 2) * pool
    ranked, given = found.ranked, found.arms
    if found.association:
        chained = TITLE_MATCH in weights
        given = yield from widen(question, found.arms, found.association, candidates, chained=chained)
    if found.association or by_files:
        ranked = fuse(given, weights, limit=wanted)
    beside = {hit.key: candidates.beside[hit.key] for hit in ranked if hit.key in candidates.beside}
    ranked = lend_to_neighbours(ranked, beside, limit=wanted)
    near = candidates.known(hit.key for hit in ranked)
    clues = {**clues_of(question.text, near, candidates.dated), **thread_clue(ranked, near)}
    ranked = favour(ranked, clues, TUNING.clues.weights, limit=wanted if by_files else pool)
    if by_files:
        commits = {} if kind == "lookup" else (yield from files_by_commits(question.terms, reach))
        evidence = FileEvidence(_said(given, weights), commits)
        ranked = rank_in_files(ranked, near, evidence, question.terms.words)
    if by_files or _is_quote(question.text):
        exact = yield from _exact_matches(question, reach)
        unranked = yield from candidates.read(exact - {hit.key for hit in ranked}, in_reach=True)
        ranked = put_first([*ranked, *(Fused(key, 0.0, {}) for key in sorted(unranked))], EXACT, exact)[:pool]
    trace = {
        "terms": {"words": question.terms.words, "identifiers": question.terms.identifiers},
        "route": kind,
        "arms": {name: len(scores) for name, scores in arms.items()},
        "weights": dict(weights),
        "candidates": len(ranked),
        "unrelated": len(arms.get(VECTORS, {})) - len(found.arms.get(VECTORS, {})),
        "graph": _told(found.association) if found.association else _why_not_walked(reach, kind),
    }
    if quick := question.lag.quick:
        trace["vectors"] = f"{quick} of {question.lag.total} passages still have only a vector of the quick model"
    return Ranking(ranked, candidates.heads, trace, found.association, candidates.beside)


def form_of(heads: Iterable[PassageHead], *, in_code: bool = False) -> Form | None:
    """Return the form that nearly all of the first of some passages have, best first; `None` where forms mix.

    `in_code`: code answers, too. Then the documents of a project are no prose by themselves: they tell of the code.
    """
    forms = [_form(head, in_code=in_code) for head in islice(heads, TUNING.question.form_hits)]
    enough = TUNING.question.min_form_share * len(forms)
    return next((form for form, count in Counter(forms).items() if count >= enough), None)


def _said(arms: Arms, weights: Mapping[str, float]) -> dict[int, float]:
    """Score passages by their words and their meaning alone: what a file says of the matter adds up of these.

    Names and the graph bring passages of a file together by themselves, and would count for it twice.
    """
    telling = {arm: arms.get(arm, {}) for arm in (WORDS, VECTORS, QUICK)}
    return {hit.key: hit.score for hit in fuse(telling, weights)}


def _exact_matches(question: Question, reach: Reach) -> Steps[set[int]]:
    """Find passages that contain every quoted phrase word for word, or else the whole of a short question.

    A pasted message, heading or line of code is unlikely to be anywhere else. A phrase that many passages contain,
    such as "run the tests", does not identify one.
    """
    quoted = question.terms.phrases
    whole = index_text(question.text) if count_words(question.text) <= TUNING.question.max_exact_words else ""
    phrases = quoted or ((whole,) if len(whole.split()) >= TUNING.question.min_exact_words else ())
    limit = TUNING.fusion.pool if quoted else TUNING.question.max_exact_passages + 1
    matches: list[set[int]] = []
    for phrase in phrases:
        found: TextFound = yield TextRequest(reach, limit, words=(phrase,))
        matches.append({hit.key for hit in found.words})
    in_all = set.intersection(*matches) if matches else set()
    return in_all if quoted or len(in_all) <= TUNING.question.max_exact_passages else set()


def _is_quote(text: str) -> bool:
    """Return whether a question is nothing but a phrase in double quotes.

    In other questions about prose a quoted title identifies one of several passages that answer together.
    """
    return bool(re.fullmatch(r'\s*(?:"[^"]+"|“[^“”]+”)\s*', text))


@dataclass(frozen=True, slots=True)
class _Found:
    """What the arms found, without the merely nearest, in order; and what the graph says of it."""

    arms: Arms
    ranked: list[Fused]
    association: Association | None


def _found(question: Question, arms: Arms, kind: Route, candidates: Candidates) -> Steps[_Found]:
    yield from candidates.read(set().union(*arms.values()), in_reach=True)
    kept = related(question, arms, candidates)
    ranked = fuse(kept, TUNING.fusion.lookup_weights, limit=TUNING.fusion.pool)
    reach = candidates.reach
    # The graph knows only what is current.
    if kind == "lookup" or reach.at is not None or reach.withdrawn or not ranked:
        return _Found(kept, ranked, None)
    view: GraphView = yield GraphRequest(reach)
    seeds = [(hit.key, hit.score) for hit in ranked]
    return _Found(kept, ranked, associate(question.text, question.terms, seeds, view))


def _weights(kind: Route, form: Form | None, found: _Found, meaning: Meaning | None) -> Mapping[str, float]:
    """Choose by the form of what was found first; where forms mix, the weights of code, which serve all.

    All candidates are weighed alike, for scores under different weights do not compare: each form weighed by its
    own put documents below the code they tell of (13 points of reciprocal rank).
    """
    if found.association is None:
        return TUNING.fusion.lookup_weights
    if form == "prose":
        compared = kind == "comparison" and len(found.association.named) >= TUNING.question.min_compared_names
        weights = TUNING.fusion.comparison_weights if compared else TUNING.fusion.prose_weights
        if meaning is None:
            return weights
        weights = {**weights, VECTORS: weights[VECTORS] * meaning.prose_share}
        # Paragraphs that answer together are found by names more than by vectors of a quick model.
        return {**weights, QUICK: meaning.quick.prose_share} if meaning.quick else weights
    return TUNING.fusion.dialogue_weights if form == "turn" else TUNING.fusion.code_weights


def _form(head: PassageHead, *, in_code: bool) -> Form:
    if is_turn(head):
        return "turn"
    return "prose" if head.role == "prose" and not (in_code and head.place_role != NO_PLACE) else "code"


def _code_answers(words: Mapping[int, float], candidates: Candidates) -> bool:
    """Tell whether code shares about as much with a question as the best there is."""
    of_code = [score for key, score in words.items() if (head := candidates.heads.get(key)) and head.place_role == CODE]
    return max(of_code, default=0.0) >= TUNING.question.min_code_share * max(words.values(), default=0.0) > 0


def _leads(association: Association, ranked: Sequence[Fused], candidates: Candidates) -> list[str]:
    """Return what to ask again with: the ends of the nearest statements, and what the best passages are called."""
    facts = association.facts
    names = association.view.names(sorted({end for fact in facts for end in (fact.subject, fact.object)}))
    stated = [f"{names.get(fact.subject, '')} {names.get(fact.object, '')}" for fact in facts]
    best = candidates.known(hit.key for hit in ranked[: TUNING.question.lead_titles])
    titles = [head.title for head in best.values()]
    return list(dict.fromkeys(filter(None, map(str.strip, (*stated, *titles)))))


def _told(association: Association) -> dict[str, Any]:
    """Say where the walk began, in names."""
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
