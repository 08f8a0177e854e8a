import gc
import re
from itertools import pairwise
from math import inf

from hypothesis import given, settings
from hypothesis import strategies as st

from treering.retrieval.search.reranking import Candidate, diversify

LONG = "The ledger writes every patch in one transaction together with its audit entries and the text index"


def candidates(*texts: str) -> list[Candidate]:
    return [Candidate(n, 1 - n / 100, text) for n, text in enumerate(texts)]


@st.composite
def rankings(draw: st.DrawFn) -> list[Candidate]:
    texts = draw(
        st.lists(st.one_of(st.text(max_size=20), st.sampled_from(["a b c", "a b c d", "x 1", "x 2"])), max_size=12)
    )
    scores = sorted(draw(st.lists(st.floats(0, 1), min_size=len(texts), max_size=len(texts))), reverse=True)
    return [Candidate(n, s, t) for n, (s, t) in enumerate(zip(scores, texts, strict=True))]


@given(rankings(), st.integers(0, 15))
@settings(max_examples=100)
def test_every_candidate_is_chosen_at_most_once(ranked: list[Candidate], limit: int) -> None:
    selection = diversify(ranked, limit)
    assert len(selection.keys) == len(set(selection.keys)) <= limit


@given(rankings())
@settings(max_examples=50)
def test_the_best_candidate_stays_first(ranked: list[Candidate]) -> None:
    assert diversify(ranked, 3).keys[:1] == tuple(candidate.key for candidate in ranked[:1])


def test_of_near_duplicates_the_better_one_stays() -> None:
    assert diversify(candidates(LONG, LONG.upper() + ".", "Something else"), 3).keys == (0, 2)


def test_choosing_hits_leaves_no_cycle_for_the_collector() -> None:
    hits = candidates(LONG, "Something else", "Café au lait, und mehr")
    gc.disable()
    try:
        # The least of several: threads of earlier tests may leave garbage, too.
        assert min(_collected_after(hits) for _ in range(5)) == 0
    finally:
        gc.enable()


def _collected_after(hits: list[Candidate]) -> int:
    gc.collect()
    diversify(hits, 3)
    return gc.collect()


def test_texts_that_differ_in_a_number_are_two_facts() -> None:
    assert diversify(candidates(LONG + " 5", LONG + " 7"), 2).keys == (0, 1)


def test_different_texts_keep_their_order() -> None:
    assert diversify(candidates("one fact", "another matter", "third thing"), 3).keys == (0, 1, 2)


def words_of(text: str) -> list[str]:
    return ["", *re.findall(r"\w+", text.casefold())]


def chosen_slowly(ranked: list[Candidate]) -> tuple[int, ...]:
    """Compare every text with every other, by the sets of their neighbouring words."""
    distinct: list[Candidate] = []
    for each in sorted(ranked, key=lambda candidate: -candidate.trust):
        own = set(pairwise(words_of(each.text)))
        for other in distinct:
            others = set(pairwise(words_of(other.text)))
            numbers = [re.findall(r"\d+", text) for text in (each.text, other.text)]
            if len(own & others) >= 0.9 * len(own | others) and numbers[0] == numbers[1]:
                break
        else:
            distinct.append(each)
    return tuple(candidate.key for candidate in sorted(distinct, key=lambda one: -one.score))


@st.composite
def trusted_rankings(draw: st.DrawFn) -> list[Candidate]:
    words = st.sampled_from("ledger Ledger patch audit 5 7 text index Über".split())
    texts = draw(st.lists(st.lists(words, max_size=14).map(" ".join), max_size=10))
    texts = [one + other for one, other in zip(texts, [*texts[1:], ""], strict=False)] + texts
    return [Candidate(n, 1 - n / 100, text, draw(st.sampled_from([1.0, 0.5]))) for n, text in enumerate(texts)]


@given(trusted_rankings())
@settings(max_examples=200)
def test_the_choice_is_that_of_comparing_every_two_texts(ranked: list[Candidate]) -> None:
    choice = diversify(ranked, max(1, len(ranked)))
    assert choice.keys == chosen_slowly(ranked)


@given(trusted_rankings(), st.integers(0, 20), st.integers(1, 5))
@settings(max_examples=200)
def test_candidates_that_score_no_more_than_the_bound_change_nothing(
    ranked: list[Candidate], read: int, limit: int
) -> None:
    first, rest = ranked[:read], ranked[read:]
    choice = diversify(first, limit)
    least = min((candidate.trust for candidate in first), default=0.0)
    if not any(one.score > choice.open_above or one.trust > least for one in rest):
        assert diversify(ranked, limit).keys == choice.keys


def test_a_full_choice_is_open_only_above_its_last_score() -> None:
    ranked = candidates("alpha beta", "gamma delta", "epsilon zeta")
    assert diversify(ranked, 2).open_above == ranked[1].score
    assert diversify(ranked, 4).open_above == -inf


def test_number_of_a_section_makes_no_other_text() -> None:
    text = " ".join(first + second for first in "abcdefgh" for second in "stuvwxyz")
    one, other = candidates(f"## Alternatives\n\n{text}", f"### 3.5 Alternatives\n\n{text}")
    assert diversify([one, other], 2).keys == (one.key,)
