import shutil

import pytest

import treering
from treering import Message
from treering.core.evidence import EvidenceRef
from treering.extensions.discussions.identity import DiscussionRef
from treering.extensions.discussions.summaries.versions import Versions
from treering.ports.ledger import Selection


def say(place, *texts):
    with treering.open(f"sqlite:{place}", background=False) as space:
        space.discussions().open("suppliers").append([Message(content=text, role="user") for text in texts])


def merged(place, other):
    with treering.open(f"sqlite:{place}", background=False) as space:
        report = space.merge(f"sqlite:{other}")
        return [one.text for one in space.discussions().open("suppliers").messages()], report.warnings


@pytest.fixture
def places(tmp_path):
    return tmp_path / "one.db", tmp_path / "other.db"


@pytest.mark.parametrize("before", [(), ("Order on Mondays.",)])
def test_merge_of_two_discussions_with_one_name_quotes_the_messages_that_are_not_current(places, before):
    one, other = places
    say(one, *before, "The yeast comes from Kuhn.")
    say(other, "Flour comes from Adler.")
    current, (warning,) = merged(one, other)
    assert current == ["Flour comes from Adler."]
    assert "'Discussion suppliers' was continued in both spaces" in warning
    assert all(repr(text) in warning for text in (*before, "The yeast comes from Kuhn."))


def test_merge_of_a_discussion_that_both_copies_continued_quotes_the_messages_that_are_not_current(places):
    one, other = places
    say(one, "Hello")
    shutil.copy(one, other)
    say(one, "The yeast comes from Kuhn.")
    say(other, "Flour comes from Adler.")
    current, (warning,) = merged(one, other)
    assert current == ["Hello", "Flour comes from Adler."]
    assert "1 message of the other one" in warning
    assert "'The yeast comes from Kuhn.'" in warning
    assert merged(one, other)[1] == ()


def test_merge_of_a_discussion_that_only_one_copy_continued_warns_of_nothing(places):
    one, other = places
    say(one, "Hello")
    shutil.copy(one, other)
    say(other, "Flour comes from Adler.")
    assert merged(one, other) == (["Hello", "Flour comes from Adler."], ())
    assert merged(other, one) == (["Hello", "Flour comes from Adler."], ())


def test_a_discussion_whose_only_message_one_copy_removed_and_the_other_erased_stays_erased(places):
    one, other = places
    say(one, "The dentist is on Thursday.")
    shutil.copy(one, other)
    for place, erase in ((one, True), (other, False)):
        with treering.open(f"sqlite:{place}", channel="user", background=False) as space:
            space.discussions().open("suppliers").delete([0], erase=erase)
    for place, from_place in ((one, other), (other, one)):
        texts, warnings = merged(place, from_place)
        assert not any(texts)
        assert warnings == ()


def test_an_erased_conversation_takes_a_summary_along_that_only_the_other_copy_has(places):
    one, other = places
    say(one, "The dentist is on Thursday.")
    shutil.copy(one, other)
    with treering.open(f"sqlite:{other}", background=False) as space:
        (source,) = space.engine.ledger.select(Selection(descend=True, types=("source",)))
        versions = Versions(space.engine, DiscussionRef("suppliers"), "rolling_summary")
        cited = EvidenceRef(source_id=source.id, segment_id=source.segments[0].segment_id)
        versions.write("Dentist, Thursday", after=None, last=0, evidence=[cited], made_by="test")
    with treering.open(f"sqlite:{one}", background=False, channel="user") as space:
        space.erase([source.id], "asked")
    with treering.open(f"sqlite:{other}", background=False) as space:
        space.merge(f"sqlite:{one}")
        assert not [*space.engine.ledger.select(Selection(descend=True))]
