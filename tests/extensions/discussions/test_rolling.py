from dataclasses import replace

import pytest
from recollection_parts import SETTINGS, TALK, Script, item, opened, said, summaries, talked

from space_parts import records
from treering.core.errors import Conflict, InvalidInput, Unavailable
from treering.extensions.discussions.summaries.keepers import SummaryKeeper
from treering.extensions.discussions.summaries.versions import Versions

QUIET = replace(SETTINGS, summary=False, state=False)


def keeper(space, discussion, script, settings=QUIET):
    return SummaryKeeper(space.engine, discussion.ref, settings=settings, generator=script)


def test_new_memories_are_folded_in_batches_and_each_batch_is_a_version(space):
    script = Script()
    discussion = talked(space, *TALK, "A seventh", script=script, settings=QUIET)
    newest = keeper(space, discussion, script).update()
    assert script.folded == [list(TALK[:3]), list(TALK[3:])]
    assert (newest.number, newest.last, newest.made_by) == (2, 5, "script")
    assert [version.last for version in discussion.summary_versions()] == [2, 5]
    assert summaries(discussion.newer_memories()) == ["A seventh"], "a remainder of one waits"
    assert keeper(space, discussion, script).update() is None


@pytest.mark.parametrize(
    ("loop", "least", "sizes"),
    [(3, 1, [3, 2]), (2, 2, [2, 2]), (2, 5, [2, 2]), (9, 5, [5]), (9, 6, []), (1, 1, [1] * 5)],
)
def test_small_remainder_is_not_folded(space, loop, least, sizes):
    script = Script()
    settings = replace(QUIET, loop_if_exceeds=loop, min_per_summary=least)
    discussion = talked(space, *TALK[:5], script=script, settings=settings)
    keeper(space, discussion, script, settings).update()
    assert [len(batch) for batch in script.folded] == sizes


@pytest.mark.parametrize("answer", ["", " \n\t"])
def test_an_empty_answer_never_overwrites_the_summary_and_nothing_is_skipped_for_it(space, answer):
    script = Script()
    discussion = talked(space, *TALK[:3], script=script)
    before = discussion.summary()
    discussion.append(said(*TALK[3:], start=3))
    script.fold_with = lambda _summary, _memories: answer
    discussion.update()
    assert (discussion.summary(), len(discussion.summary_versions())) == (before, 1)
    script.fold_with = None
    assert discussion.fold_summary() == " / ".join(TALK)


def test_what_was_folded_before_a_failure_stays(space):
    def fold_once(summary, memories):
        if summary:
            raise Unavailable("The model is away.", hint="Try again.")
        return "first batch"

    script = Script(fold_with=fold_once)
    discussion = talked(space, script=script, settings=QUIET)
    with pytest.raises(Unavailable):
        keeper(space, discussion, script).update()
    assert discussion.summary() == "first batch"
    assert summaries(discussion.newer_memories()) == list(TALK[3:])


def test_condensing_the_memories_does_not_move_the_position_of_the_summary(space):
    settings = replace(SETTINGS, condense_every=2, condense_after=1, min_per_summary=1, loop_if_exceeds=1)
    script = Script()
    discussion = opened(space, script, settings)
    for at, text in enumerate(TALK):
        discussion.append(said(text, start=at))
        discussion.update()
    assert any(memory.condensed for memory in discussion.all_memories())
    assert script.folded == [[text] for text in TALK], "each is folded in once"
    assert discussion.newer_memories() == []


def test_memories_that_come_late_are_folded_in_although_later_ones_were_before(space):
    failing = [TALK[1]]

    def items_of(text):
        if text in failing:
            raise Unavailable("The model is away.", hint="Try again.")
        return (item(text),)

    script = Script(items_of=items_of)
    settings = replace(SETTINGS, min_per_summary=1)
    discussion = talked(space, script=script, settings=settings)
    assert discussion.summary_versions()[-1].last == 0, "the position does not pass what is still to come"
    failing.clear()
    discussion.update()
    folded = [text for batch in script.folded for text in batch]
    assert sorted(folded) == sorted(TALK)
    assert folded[-1] == TALK[1]
    assert discussion.summary_versions()[-1].last == 5


def test_rewind_withdraws_versions_that_cover_it(space):
    script = Script()
    discussion = talked(space, script=script)
    assert [version.last for version in discussion.summary_versions()] == [2, 5]
    discussion.record(said(*TALK[:4]), start=0)
    assert discussion.summary() == " / ".join(TALK[:3]), "nothing that was rewound is told of"
    assert [version.status for version in discussion.summary_versions()] == ["superseded", "stale"]
    asked = len(script.folded)
    discussion.append(said("Dan sails it", "It sinks", start=4))
    discussion.update()
    assert script.folded[asked:] == [[TALK[3], "Dan sails it", "It sinks"]], "what was told before is not told again"
    assert [version.status for version in discussion.summary_versions()] == ["superseded", "archived", "active"]
    assert discussion.summary() == " / ".join([*TALK[:4], "Dan sails it", "It sinks"])


def test_a_summary_from_outside_is_kept_with_its_position(space):
    script = Script()
    discussion = talked(space, script=script, settings=QUIET)
    assert discussion.write_summary("  All of it.  ", last=3) == "All of it."
    assert summaries(discussion.newer_memories()) == list(TALK[4:])
    assert discussion.write_summary("Even more.") == "Even more."
    assert discussion.newer_memories() == []
    assert [version.last for version in discussion.summary_versions()] == [3, 5]
    before = records(space)
    assert discussion.write_summary("  ") == "Even more."
    assert records(space) == before
    with pytest.raises(InvalidInput):
        keeper(space, discussion, script).write("")


def test_external_summary_becomes_stale_with_uncovered_message(space):
    discussion = opened(space, settings=QUIET)
    discussion.record(said(*TALK), start=0)
    discussion.write_summary("All of it.", last=99)
    assert discussion.summary_versions()[0].last == 5
    discussion.record(said(*TALK[:5]), start=0)
    assert discussion.summary() == ""


def test_update_continues_concurrent_version(space):
    discussion = talked(space, settings=QUIET)
    other = []

    def fold_slowly(summary, memories):
        if not other:
            other.append(discussion.write_summary("Written meanwhile.", last=2))
        return " / ".join([summary, *(item.summary for item in memories)])

    script = Script(fold_with=fold_slowly)
    keeper(space, discussion, script).update()
    assert discussion.summary() == " / ".join(["Written meanwhile.", *TALK[3:]])
    assert [version.number for version in discussion.summary_versions()] == [1, 2]


def test_version_lost_to_other_writers_gets_an_error(space):
    discussion = talked(space, settings=QUIET)
    versions = Versions(space.engine, discussion.ref, "rolling_summary")

    def always_late(_summary, _memories):
        versions.write("Earlier.", after=versions.current(), last=-1, made_by="somebody else")
        return "Late."

    with pytest.raises(Conflict):
        keeper(space, discussion, Script(fold_with=always_late)).update()
    assert discussion.summary() == "Earlier."


def test_a_refreshed_summary_has_all_memories(space):
    discussion = talked(space, *TALK, "A seventh", script=Script())
    assert "A seventh" not in discussion.fold_summary()
    assert "A seventh" in discussion.summary(refresh=True)
    assert discussion.newer_memories() == []
