from threading import Barrier, Thread

import pytest

from space_parts import all_of, open_space, records
from treering.core.errors import Conflict, Denied
from treering.core.objects import Source
from treering.extensions.discussions.identity import discussion_ref
from treering.extensions.discussions.summaries.versions import TextState, Versions

PLACE = discussion_ref("0f8fad5b-d9cb-469f-a165-70867728950e")


@pytest.fixture
def versions(space):
    return Versions(space.engine, PLACE, "rolling_summary")


def write(versions, text, **fields):
    return versions.write(text, **{"after": versions.current(), "last": -1, "made_by": "test", **fields})


def test_a_discussion_without_a_version_has_none_and_looking_for_one_writes_nothing(space, versions):
    before = records(space)
    assert (versions.current(), versions.all(), versions.state()) == (None, [], TextState(None))
    assert records(space) == before


def test_newest_version_is_current_and_all_are_stored(versions):
    for text in ("one", "two", "three"):
        write(versions, text)
    assert versions.current().text == "three"
    assert [(version.number, version.text, version.status) for version in versions.all()] == [
        (1, "one", "superseded"),
        (2, "two", "superseded"),
        (3, "three", "active"),
    ]


def test_the_texts_of_other_discussions_and_of_another_form_are_others(space, versions):
    write(versions, "mine")
    for place, form in ((discussion_ref("other"), "rolling_summary"), (PLACE, "state_document")):
        assert Versions(space.engine, place, form).current() is None
        write(Versions(space.engine, place, form), "theirs")
    assert versions.current().text == "mine"


@pytest.mark.parametrize("identity", ["!!!", "Über 東京", "a; b", '"', "rolling summary", "x" * 128])
def test_a_version_is_found_whatever_the_discussion_is_called(space, identity):
    versions = Versions(space.engine, discussion_ref(identity), "state_document")
    write(versions, "it is there")
    assert versions.current().text == "it is there"


def test_who_did_not_see_the_newest_version_does_not_replace_it(versions):
    first = write(versions, "first")
    write(versions, "second")
    for seen in (first, None):
        with pytest.raises(Conflict):
            write(versions, "third", after=seen)
    assert versions.current().text == "second"


def test_concurrent_first_version_raises_conflict(tmp_path):
    address, barrier, outcomes = f"sqlite:{tmp_path / 's.db'}", Barrier(2), []

    def work(space):
        versions = Versions(space.engine, PLACE, "rolling_summary")
        barrier.wait()
        try:
            outcomes.append(versions.write("first", after=None, last=-1, made_by="test").number)
        except Conflict:
            outcomes.append("conflict")

    with open_space(address) as one, open_space(address) as other:
        threads = [Thread(target=work, args=(space,)) for space in (one, other)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert sorted(map(str, outcomes)) == ["1", "conflict"]
        assert len(Versions(one.engine, PLACE, "rolling_summary").all()) == 1


def test_version_without_evidence_cites_a_note(space, versions):
    write(versions, "declared")
    (note,) = [item for item in all_of(space, "source") if isinstance(item, Source)]
    assert note.segments[0].excerpt == "declared"
    write(versions, "after that")
    space.with_actor("ada", channel="user").erase([note.id])
    assert versions.current() is None
    assert versions.all() == []
    assert write(versions, "again").number == 3


def test_after_all_versions_were_erased_another_can_be_written(space, versions):
    written = write(versions, "secret")
    person = space.with_actor("ada", channel="user")
    person.erase([item.id for item in all_of(space, "source")] + [written.id])
    assert versions.current() is None
    assert write(versions, "new").text == "new"


def test_lines_written_by_hand_outlive_the_version_they_were_written_into(space, versions):
    write(versions, "generated")
    write(versions, "generated\nmine", by_hand=["mine"], struck_by_hand=["theirs"])
    space.with_actor("ada", channel="user").erase([item.id for item in all_of(space, "source")])
    assert versions.state() == TextState(None, ("mine",), ("theirs",))


def test_secrets_are_taken_out(versions):
    assert "q7Zr-93kLx" not in write(versions, 'password = "q7Zr-93kLx!vB2"').text


def test_a_space_that_wants_a_review_is_refused_and_nothing_waits_there(open_space, tmp_path):
    policy = tmp_path / "policy.toml"
    policy.write_text('direct_channels = ["user"]\n')
    space = open_space(policy=policy)
    with pytest.raises(Denied):
        write(Versions(space.engine, PLACE, "rolling_summary"), "text")
    assert space.proposals() == ()
