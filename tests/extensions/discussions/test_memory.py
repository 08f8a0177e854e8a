import pytest
from recollection_parts import SETTINGS, TALK, Script, opened, said, summaries, talked

from space_parts import records
from treering.core.errors import InvalidInput
from treering.extensions.discussions.memory import DiscussionMemory, Recollection
from treering.extensions.discussions.stateless import StatelessDiscussion


@pytest.mark.parametrize("identity", ["", "  ", "a/b", "..", "a\\b", "a\nb", "x" * 129, None, 7])
def test_an_id_that_is_empty_or_could_be_a_path_is_refused(space, identity):
    with pytest.raises(InvalidInput):
        space.discussions().open(identity)


def test_a_scope_that_is_none_is_refused(space):
    with pytest.raises(InvalidInput):
        space.discussions("no scope")


def test_the_space_gives_the_memory_of_its_discussions_made_by_rules(space):
    discussion = space.discussions(settings=SETTINGS).open(" talk ")
    assert (discussion.id, discussion.ref.scope) == ("talk", "/discussion/talk")
    discussion.record(said("We decided to paint the boat blue on Monday."), start=0)
    made = discussion.update()
    assert made.done == 1
    assert "blue" in discussion.all_memories()[0].item.summary


def test_the_ids_are_those_of_discussions_of_which_anything_is_kept(space):
    memory = DiscussionMemory(space.engine)
    assert memory.ids() == []
    for identity in ("two", "one", "東京", "a b"):
        talked(space, "Hello there", identity=identity)
    opened(space, identity="written").edit_state("- a plan")
    opened(space, identity="opened only")
    DiscussionMemory(space.engine, within="/user/ada").open("hers").record(said("Hello"), start=0)
    assert memory.ids() == ["a b", "one", "two", "written", "東京"]
    assert DiscussionMemory(space.engine, within="/user/ada").ids() == ["hers"]


def test_reading_everything_of_an_unknown_discussion_writes_nothing(space):
    before = records(space)
    discussion = opened(space, identity="unknown")
    assert discussion.search("anything") == []
    assert discussion.summary(refresh=True) == discussion.fold_summary() == discussion.write_summary(" ") == ""
    assert DiscussionMemory(space.engine).search("anything") == []
    assert records(space) == before


def test_stored_and_stateless_discussions_have_equal_methods(space):
    kept: Recollection = talked(space, settings=SETTINGS)
    at_hand: Recollection = StatelessDiscussion(said(*TALK), generator=Script())
    for recollection in (kept, at_hand):
        assert len(recollection.recent_memories(2)) == 2
        assert [message.text for message in recollection.last_messages(2)] == list(TALK[-2:])
        assert recollection.summary(refresh=True)


def test_appending_and_deleting_go_to_the_log(space):
    discussion = talked(space, *TALK[:2])
    assert discussion.append(said(TALK[2], start=2)).count == 3
    assert discussion.delete([0]).positions == (0,)
    discussion.update()
    assert summaries(discussion.all_memories()) == list(TALK[1:3])


def test_lint_has_nothing_to_say_of_memories_and_versions_that_stand(space):
    discussion = talked(space, *TALK)
    assert len(discussion.summary_versions()) > 1
    reports = [space.lint(mode) for mode in ("structure", "semantic")]
    assert [finding.rule for report in reports for finding in report.findings] == []
