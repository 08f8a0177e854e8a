"""Whether chance explains the best hits for a question in a large space."""

import pytest

from treering.retrieval.search.chance import RelevanceEvidence


@pytest.mark.parametrize("talk", [False, True])
def test_near_meaning_answers_though_few_words_are_shared(talk):
    def is_chance(near):
        return RelevanceEvidence(
            near=near, covered=0.2, largeness=0.8, length=6.0, missing=0.5, broken=0.0, nameless=0.0, talk=talk
        ).is_chance

    assert is_chance(0.0)
    assert not is_chance(0.5)
