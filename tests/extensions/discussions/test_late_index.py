"""Discussion memory over an index that is late: what it decides on is read from the ledger."""

from dataclasses import replace

import pytest
from recollection_parts import SETTINGS, TALK, Script, said, summaries

from late_index import LateIndex
from treering.core.patch import Update
from treering.extensions.discussions.identity import apply_patch
from treering.extensions.discussions.memory import DiscussionMemory
from treering.extensions.discussions.operations import SEARCH
from treering.extensions.discussions.search import DiscussionSearch
from treering.verbs.envelope import EVERYTHING

MODES = ("keywords", "natural", "semantic", "hybrid")


@pytest.fixture
def late(space):
    """An engine whose index shows nothing yet."""
    index = LateIndex(space.engine.index, space.engine.ledger.sequence)
    index.hold()
    return replace(space.engine, index=index)


def opened(engine, identity="talk"):
    return DiscussionMemory(engine, settings=SETTINGS, generator=Script()).open(identity)


def found(discussion, query, mode):
    options = DiscussionSearch(what="both", mode=mode)
    return {one.text for one in discussion.search(query, options)}


def test_a_late_index_hides_no_summary(late):
    discussion = opened(late)
    assert discussion.summary() == ""
    discussion.write_summary("Ada has a boat.")
    assert discussion.summary() == "Ada has a boat."
    discussion.write_summary("Ada has a red boat.")
    assert discussion.summary() == "Ada has a red boat."
    assert [version.status for version in discussion.summary_versions()] == ["superseded", "active"]


def test_a_late_index_hides_no_state_document_and_stops_no_edit(late):
    discussion = opened(late)
    first = discussion.edit_state("- a red boat")
    second = discussion.edit_state("- a red boat\n- a pier", base=first.id)
    assert (second.number, discussion.state()) == (2, "- a red boat\n- a pier")


def test_a_discussion_is_remembered_alike_whether_the_index_is_late_or_not(space, late):
    prompt, tardy = opened(space.engine, "prompt"), opened(late, "tardy")
    for discussion in (prompt, tardy):
        discussion.record(said(*TALK), start=0)
        made = discussion.update()
        assert made.done == len(TALK)
        discussion.delete([1])
        discussion.update()
    assert summaries(tardy.all_memories()) == summaries(prompt.all_memories())
    assert tardy.summary() == prompt.summary()
    assert tardy.state() == prompt.state()
    assert "Ben" not in tardy.summary()


def test_what_was_made_before_a_version_fell_stands_although_the_index_never_saw_it(late):
    discussion = opened(late)
    discussion.record(said(*TALK), start=0)
    discussion.update()
    earlier = discussion.summary_versions()
    discussion.delete([5])
    assert discussion.summary() == earlier[-2].text


def test_stale_memories_are_archived_although_the_index_is_silent(late):
    discussion = opened(late)
    discussion.record(said(*TALK), start=0)
    discussion.update()
    memory = discussion.all_memories()[2]
    (head,) = discussion.log.blocks()
    source = late.ledger.get(head.source_id)
    left = [segment.model_dump() for segment in source.segments if segment.locator.turn != 2]
    cut = Update(id=source.id, expected_revision=source.revision, changes={"segments": left})
    apply_patch(late, discussion.ref, [cut], reason="Cut by other means")
    assert late.ledger.get(memory.id).status == "stale"
    discussion.update()
    assert late.ledger.get(memory.id).status == "archived"
    assert summaries(discussion.all_memories()) == [text for at, text in enumerate(TALK) if at != 2]


@pytest.mark.parametrize("mode", MODES)
def test_a_late_index_shows_nothing_that_was_deleted(space, mode):
    index = LateIndex(space.engine.index, space.engine.ledger.sequence)
    discussion = opened(replace(space.engine, index=index))
    discussion.record(said(*TALK), start=0)
    discussion.update()
    space.embed_pending()
    assert TALK[0] in found(discussion, "red boat", mode)
    index.hold()
    discussion.delete([0])
    assert TALK[0] not in found(discussion, "red boat", mode)
    index.catch_up()
    assert TALK[0] not in found(discussion, "red boat", mode)


@pytest.mark.parametrize("mode", MODES)
def test_what_is_found_once_the_index_has_caught_up(space, mode):
    index = LateIndex(space.engine.index, space.engine.ledger.sequence)
    index.hold()
    discussion = opened(replace(space.engine, index=index))
    discussion.record(said(*TALK), start=0)
    space.embed_pending()
    assert discussion.search("red boat", DiscussionSearch(what="turns", mode="keywords")) == []
    index.catch_up()
    assert TALK[0] in found(discussion, "red boat", mode)


@pytest.mark.parametrize("mode", MODES)
def test_a_search_says_that_the_index_is_late(space, mode):
    index = LateIndex(space.engine.index, space.engine.ledger.sequence)
    discussion = opened(replace(space.engine, index=index))
    index.hold()
    discussion.record(said(*TALK), start=0)
    options = DiscussionSearch(what="turns", mode=mode)
    (warning,) = [one for one in discussion.search("red boat", options).warnings if "not found yet" in one]
    assert "rebuilt or updated" in warning
    space.embed_pending()
    index.catch_up()
    assert discussion.search("red boat", options).warnings == ()


def test_a_search_for_meaning_says_that_vectors_are_missing(space):
    discussion = opened(space.engine)
    discussion.record(said(*TALK), start=0)
    (warning,) = discussion.search("red boat", DiscussionSearch(what="turns", mode="semantic")).warnings
    assert "not embedded yet" in warning
    assert discussion.search("red boat", DiscussionSearch(what="turns", mode="keywords")).warnings == ()


def test_the_operation_hands_the_warning_on(space):
    index = LateIndex(space.engine.index, space.engine.ledger.sequence)
    late = replace(space.engine, index=index)
    opened(late).record(said("Bees hum."), start=0)
    index.hold()
    opened(late).record(said("Bees hum.", "Ants dig."), start=0)
    report = SEARCH.perform(late, given={"id": "talk", "query": "bees"}, granted=EVERYTHING)
    assert any("not found yet" in warning for warning in report.warnings)
