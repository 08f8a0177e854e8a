import pytest
from hypothesis import given
from hypothesis import strategies as st

from treering.core.errors import InvalidInput
from treering.core.scope import parse_scope
from treering.memories.discussion.identity import checked_id, place_of, shelf_of, without_tags
from treering.tools.turns import Message


def tagged(*contents):
    return without_tags([Message(role="user", content=content) for content in contents])


def test_a_discussion_lies_below_the_scope_it_is_kept_in():
    assert place_of("garden").scope == "/discussion/garden"
    assert place_of("garden", within="/team/ada").scope == "/team/ada/discussion/garden"
    assert shelf_of("/team") == "/team/discussion"


def test_its_sources_bear_its_id():
    assert place_of("garden", within="/team").origin == "discussion:garden"


def test_white_space_around_an_id_does_not_count():
    assert place_of("  garden\n").id == "garden"


@pytest.mark.parametrize("unfit", ["", "  ", "a/b", "..", ".", "a\\b", "/etc", "a\nb", "a\x00b", "a\x7fb", "x" * 129])
def test_an_id_that_is_empty_long_or_could_be_a_path_is_refused(unfit):
    with pytest.raises(InvalidInput) as refused:
        place_of(unfit)
    assert refused.value.hint


@pytest.mark.parametrize("unfit", [None, 7, ["garden"]])
def test_an_id_that_is_no_text_is_refused(unfit):
    with pytest.raises(InvalidInput):
        place_of(unfit)


def test_a_scope_that_is_none_is_refused():
    with pytest.raises(InvalidInput):
        place_of("garden", within="team")


@given(st.text(max_size=140))
def test_every_id_that_passes_makes_a_scope(text):
    try:
        name = checked_id(text)
    except InvalidInput:
        return
    assert parse_scope(place_of(name).scope).endswith(f"/{name}")


def test_a_tag_names_the_discussion_and_is_taken_out():
    named, left = tagged("[DiscussionId]garden[/DiscussionId]Hello")
    assert named == "garden"
    assert [message.content for message in left] == ["Hello"]


def test_tags_are_taken_out_of_all_messages_and_the_last_one_counts():
    named, left = tagged("a[DiscussionId]one[/DiscussionId]", "b", "c[discussionid]two\n[/DISCUSSIONID]d")
    assert named.strip() == "two"
    assert [message.content for message in left] == ["a", "b", "cd"]


def test_an_open_tag_is_text():
    assert tagged("[DiscussionId]garden")[1][0].content == "[DiscussionId]garden"


def test_without_a_tag_no_discussion_is_named():
    assert tagged("a", "b")[0] is None


def test_an_empty_tag_is_an_empty_id_that_is_refused():
    named, _ = tagged("[DiscussionId][/DiscussionId]")
    with pytest.raises(InvalidInput, match="empty"):
        checked_id(named)
