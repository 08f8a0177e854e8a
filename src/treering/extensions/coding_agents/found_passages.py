"""The passages of found files to point at: the best one of each file, and a second one of a file that answers best."""

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice, pairwise
from math import fsum, log

from treering.ports.format import PROSE_SUFFIX
from treering.retrieval.search.relevance import WEAK
from treering.retrieval.text.analysis import telling_terms
from treering.retrieval.tuning import TUNING
from treering.verbs.shown_hits import ShownHit

_HOOKS = TUNING.hooks
_NAME_WEIGHT = 2
"""A definition named after a term of the prompt is likelier meant than one that contains it."""
_OF_DOCUMENTS = frozenset(telling_terms("docs documentation readme changelog guide tutorial example"))
"""Terms of a prompt about documentation."""
_PROSE = re.compile(rf"{PROSE_SUFFIX}$", re.IGNORECASE)
_Term = str | tuple[str, str]
"""A term of a prompt, or two neighboring ones."""


@dataclass(frozen=True, slots=True)
class _Passage:
    """A passage of a found file, and the terms of the prompt that it has. `file_score` is relative to the best file."""

    hit: ShownHit
    file_score: float
    terms: frozenset[_Term]


def passages_to_show(files: Sequence[ShownHit], text: str, subject: frozenset[str]) -> list[ShownHit]:
    """Return the passages that answer a prompt: the best one of each of the best files, then a second one of a file.

    `files` are hits grouped by source; `subject` are the terms of the prompt.
    """
    scored = _scored(files, text, subject)
    top = scored[0][0] if scored else 0.0
    best: dict[str, ShownHit] = {}
    for score, hit in scored:
        if score >= _HOOKS.min_score_share * top and len(best) < _HOOKS.max_found_places:
            best.setdefault(hit.object_id, hit)
    near = (hit for score, hit in scored if score >= _HOOKS.min_score_share_of_second * top and hit.object_id in best)
    second = (hit for hit in near if hit.symbol != best[hit.object_id].symbol)
    return [*best.values(), *islice(second, 1)]


def _scored(files: Sequence[ShownHit], text: str, subject: frozenset[str]) -> list[tuple[float, ShownHit]]:
    """Return the passages of files, best first, scored by their file, and the prompt's terms and phrases.

    A term counts more if fewer passages have it.
    """
    passages = [*_passages(files, text, subject)]
    counts = Counter(term for one in passages for term in one.terms)
    weights = {term: log((len(passages) + 1) / (count + 0.5)) for term, count in counts.items()}
    whole = _weight(subject, weights) or 1.0
    is_of_code = _OF_DOCUMENTS.isdisjoint(telling_terms(text))

    def score(one: _Passage) -> float:
        in_name = subject.intersection(telling_terms(one.hit.symbol))
        words = _weight(one.terms, weights) + _NAME_WEIGHT * _weight(in_name, weights)
        factor = _HOOKS.prose if is_of_code and _PROSE.search(one.hit.place.rpartition("#L")[0]) else 1.0
        return factor * (one.file_score + _HOOKS.subject_weight * words / whole)

    scored = [(score(one), one.hit) for one in passages if WEAK not in one.hit.flags]
    return sorted(scored, key=lambda pair: -pair[0])


def _passages(files: Sequence[ShownHit], text: str, subject: frozenset[str]) -> Iterator[_Passage]:
    """Yield the passages of files; those outside of definitions, such as imports, only if a file has no others."""
    pairs = frozenset(pairwise(telling_terms(text)))
    best = max((hit.score for hit in files), default=0.0) or 1.0
    for file in files:
        hits = [file, *(file.model_copy(update={**dict(one), "more": ()}) for one in file.more)]
        for hit in [one for one in hits if one.symbol] or hits:
            terms = telling_terms(f"{hit.heading}\n{hit.text}")
            yield _Passage(hit, file.score / best, subject.intersection(terms) | pairs.intersection(pairwise(terms)))


def _weight(terms: Iterable[_Term], weights: Mapping[_Term, float]) -> float:
    return fsum(weights.get(term, 0.0) for term in terms)
