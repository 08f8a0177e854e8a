"""Later turns of a conversation that come back to what better ones said."""

from datetime import UTC, datetime, timedelta

import pytest

import treering
from treering.extensions.discussions.memory import DiscussionMemory
from treering.extensions.discussions.search import DiscussionSearch
from treering.models.static_model import StaticEmbedder
from treering.retrieval.search.later_turns import SaidTurn, raised_scores
from treering.verbs.ingest.turns import Message

_START = datetime(2026, 3, 2, 8, tzinfo=UTC)
_SAID = (
    ("I take tram 12 to the office at half past seven.", 1.0),
    ("The dentist found nothing, next check in autumn.", 0.5),
    ("Tram 12 is too crowded, so from today I cycle to the office.", 0.6),
    ("Grandma turns ninety in June.", 0.3),
)


def _turns(order=(0, 1, 2, 3)):
    return [SaidTurn(_SAID[one][0], _START + timedelta(days=one), one, _SAID[one][1]) for one in order]


def test_a_turn_gains_from_an_earlier_one_about_the_same_and_none_from_others():
    raised = raised_scores(_turns(), StaticEmbedder())
    gains = [after - one.score for after, one in zip(raised, _turns(), strict=True)]
    assert gains[0] == 0
    assert gains[2] == max(gains) > 0.2
    assert gains[1] == pytest.approx(0, abs=0.05)


def test_the_gain_follows_the_times_of_turns_and_not_the_order_of_candidates():
    raised = raised_scores(_turns((2, 0, 3, 1)), StaticEmbedder())
    assert raised[1] == 1.0
    assert raised[0] > 0.8


def test_a_search_asks_for_what_holds_now_unless_the_question_is_about_the_past():
    with treering.open(":memory:", background=False) as space:
        talk = DiscussionMemory(space.engine).open("notes")
        talk.record(
            [
                Message(role="user", name="Ida", content=text, at=_START + timedelta(days=day))
                for day, (text, _) in enumerate(_SAID)
            ]
        )
        options = DiscussionSearch(what="turns", mode="hybrid", limit=2)
        assert [hit.first for hit in talk.search("How does Ida get to the office with tram 12?", options)] == [2, 0]
        assert talk.search("How did Ida get to the office before, with tram 12?", options)[0].first == 0
