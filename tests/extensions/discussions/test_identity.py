import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from treering.core.errors import InvalidInput
from treering.core.scope import parse_scope
from treering.extensions.discussions.identity import Tagged, discussion_ref, home_of, without_tags


def test_discussion_scope_is_below_its_parent_scope():
    assert discussion_ref("garden").scope == "/discussion/garden"
    assert discussion_ref("garden", within="/team/ada").scope == "/team/ada/discussion/garden"
    assert home_of("/team") == "/team/discussion"


def test_its_sources_bear_its_id():
    assert discussion_ref("garden", within="/team").origin == "discussion:garden"


def test_white_space_around_an_id_does_not_count():
    assert discussion_ref("  garden\n").id == "garden"


@pytest.mark.parametrize("unfit", ["", "  ", "a/b", "..", ".", "a\\b", "/etc", "a\nb", "a\x00b", "a\x7fb", "x" * 129])
def test_an_id_that_is_empty_long_or_could_be_a_path_is_refused(unfit):
    with pytest.raises(InvalidInput) as refused:
        discussion_ref(unfit)
    assert refused.value.hint


@pytest.mark.parametrize("unfit", [None, 7, ["garden"]])
def test_non_text_id_is_refused(unfit):
    with pytest.raises(InvalidInput):
        discussion_ref(unfit)


def test_a_scope_that_is_none_is_refused():
    with pytest.raises(InvalidInput):
        discussion_ref("garden", within="team")


@given(st.text(max_size=140))
def test_every_id_that_passes_makes_a_scope(text):
    try:
        name = discussion_ref(text).id
    except InvalidInput:
        return
    assert parse_scope(discussion_ref(name).scope).endswith(f"/{name}")


def test_a_tag_names_the_discussion_and_is_taken_out():
    assert without_tags("[DiscussionId]garden[/DiscussionId]Hello") == Tagged("Hello", ("garden",))


def test_every_tag_is_taken_out_whatever_its_case():
    text = "a[DiscussionId]one[/DiscussionId]b[discussionid]two\n[/DISCUSSIONID]c"
    assert without_tags(text) == Tagged("abc", ("one", "two\n"))


@pytest.mark.parametrize(
    "text",
    [
        "",
        "a",
        "[DiscussionId]garden",
        "garden[/DiscussionId]",
        "[/DiscussionId]garden[DiscussionId]",
        f"[DiscussionId]{'x' * 257}[/DiscussionId]",
        "[D\u0130scussionId]garden[/DiscussionId]",
    ],
)
def test_a_tag_that_is_open_too_long_or_spelt_otherwise_is_text(text):
    assert without_tags(text) == Tagged(text)


def test_of_two_openings_the_last_one_counts():
    assert without_tags("[DiscussionId]a[DiscussionId]b[/DiscussionId]") == Tagged("[DiscussionId]a", ("b",))


def test_an_empty_tag_is_an_empty_id_that_is_refused():
    (named,) = without_tags("[DiscussionId][/DiscussionId]").ids
    with pytest.raises(InvalidInput, match="empty"):
        discussion_ref(named)


def test_tags_by_the_megabyte_are_no_work_without_end():
    # In the square of the length this would take hours; the time limit only ends that.
    script = """
from treering.extensions.discussions.identity import without_tags
for text in ("[DiscussionId]", "[", "[DiscussionId", "[/DiscussionId]", "[DiscussionId]x[/Discussion"):
    assert without_tags(text * 200_000).ids == ()
"""
    subprocess.run([sys.executable, "-c", script], check=True, timeout=60)
