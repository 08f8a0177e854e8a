import threading
from dataclasses import replace
from datetime import timedelta
from itertools import count, pairwise

import pytest
from discussion_parts import (
    MORNING,
    at_hours,
    files_hold,
    new_log,
    remember,
    said,
    segment_ids,
    talk,
    texts,
)
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from space_parts import decide, note, records, status
from treering.core.errors import Conflict, Denied, InvalidInput
from treering.core.fencing import fence
from treering.core.policy import Policy
from treering.extensions.discussions.identity import apply_patch, discussion_ref
from treering.extensions.discussions.log.blocks import ChunkState, Condensation
from treering.extensions.discussions.log.message_log import MessageLog, Recorded
from treering.extensions.discussions.log.snapshot import LogSnapshot
from treering.verbs.ingest.turns import Message

QUICK = settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
WORDS = st.lists(st.sampled_from(["ok", "yes", "a", "b", "c"]), max_size=6)


@pytest.fixture
def log(space):
    return new_log(space)


@pytest.fixture
def persons_space(open_space, tmp_path):
    """A space in a file, written by a person, who may erase."""
    return open_space(str(tmp_path / "space.db"), channel="user")


def test_reading_finds_nothing_and_writes_nothing_before_the_first_message(space, log):
    before = space.engine.ledger.sequence()
    assert (log.count(), log.exists(), log.read(), log.tail(3), log.blocks()) == (0, False, [], [], [])
    assert space.engine.ledger.sequence() == before


def test_messages_are_read_back_with_speaker_role_and_time(log):
    log.record([Message(role="user", name="Ada", content="Hello", at=MORNING), Message(role="assistant", content="Hi")])
    first, second = log.read()
    assert (first.role, first.speaker, first.text, first.at) == ("user", "Ada", "Hello", MORNING)
    assert (second.role, second.speaker, second.text, second.at) == ("assistant", "assistant", "Hi", None)


def test_a_stretch_and_the_tail_are_read(log):
    log.record(talk(0, 100))
    assert [kept.position for kept in log.read(38, 41)] == [38, 39, 40, 41]
    assert [kept.position for kept in log.tail(2)] == [98, 99]
    assert log.count() == 100


def test_what_the_system_and_tools_say_is_no_part_of_the_log(log):
    log.record([Message(role=role, content=role) for role in ("system", "user", "tool", "Developer", "function")])
    assert texts(log) == "user"


def test_recalled_text_and_secrets_are_taken_out_and_tags_are_text(log):
    recalled = fence("[DiscussionId]x[/DiscussionId] of old", origin="a note")
    secret = "token ghp_" + "a1B2" * 9
    log.record(
        [
            Message(role="user", content=f"See {recalled} here [DiscussionId]talk[/DiscussionId]"),
            Message(role="user", content=recalled),
            Message(role="user", content=secret),
        ]
    )
    kept = [kept.text for kept in log.read()]
    assert kept == ["See  here [DiscussionId]talk[/DiscussionId]", "token [redacted:github_token]"]


def test_a_long_message_is_several_segments_and_reads_as_one(log):
    long = "\n\n".join(f"Paragraph {at} " + "goes on and on " * 20 + "x" * (at * 900) for at in range(9))
    log.record([Message(role="user", content=long), *said("short")])
    kept, _ = log.read()
    assert kept.text == long
    assert len(kept.segment_ids) > 1
    assert log.record([Message(role="user", content=long), *said("short")]).unchanged == 2


def test_a_block_holds_forty_messages(log):
    log.record(talk(0, 85))
    assert [(head.first, head.count) for head in log.blocks()] == [(0, 40), (40, 40), (80, 5)]


def test_a_pause_of_four_hours_between_two_known_times_begins_a_block(log):
    log.record(at_hours(0, 1, 5, None, 30, 31))
    assert [(head.first, head.count) for head in log.blocks()] == [(0, 2), (2, 4)]


def test_each_block_states_its_place_and_its_discussion(space):
    log = MessageLog(space.engine, discussion_ref("garden", within="/team"))
    log.record(talk(0, 41))
    first, second = (log.block(head).source for head in log.blocks())
    assert (first.scope, first.origin) == ("/team/discussion/garden", "discussion:garden#000000000")
    assert (second.title, second.kind) == ("Discussion garden", "conversation")
    assert second.metadata == {"discussion": "garden"}
    assert second.origin == "discussion:garden#000000040"


def test_short_turn_is_found_by_preceding_turns(log):
    log.record([*talk(0, 39), *said("where? here")])
    segment = log.block(log.blocks()[-1]).source.segments[0]
    assert "where?" in segment.gist
    assert "Turn 38" in segment.gist


def test_turns_before_a_pause_are_not_embedded_with_a_message(log):
    texts = ("We drive a Skoda.", "Noted.", "Lina plays football.")
    times = ("2026-03-02T09:00Z", "2026-03-02T09:01Z", "2026-03-09T09:00Z")
    log.append([Message(role="user", content=text, at=at) for text, at in zip(texts, times, strict=True)])
    gists = [part.gist for head in log.blocks() for part in log.block(head).source.segments]
    assert "Skoda" in gists[1]
    assert "Skoda" not in gists[2]


def test_append_repeats_messages_and_record_does_not(log):
    log.append(said("a b"))
    assert log.append(said("a b")).count == 4
    assert log.record(said("a b a b")) == Recorded(unchanged=4, count=4)


def test_record_with_start_replaces_everything_after_it(log):
    log.record(said("a b c d"))
    assert log.record(said("x"), start=2) == Recorded(appended=1, withdrawn=2, diverged_at=2, count=3)
    assert log.record([], start=1).count == 1
    assert log.record([], start=0).count == 0
    assert not log.exists()


def test_a_start_after_the_end_is_refused(log):
    log.record(said("a b"))
    with pytest.raises(InvalidInput, match="there are 2"):
        log.record(said("x"), start=3)
    with pytest.raises(InvalidInput):
        log.record(said("x"), start=-1)


def test_withdrawn_message_can_be_recorded_again(log):
    log.record(talk(0, 90))
    log.record(talk(0, 30))
    log.record(talk(0, 95))
    assert [kept.text for kept in log.read()] == [message.content for message in talk(0, 95)]


def test_recording_in_space_with_review_is_denied(space, log):
    space.engine.ledger.change_policy(Policy(direct_channels=frozenset({"user"})), by=space.engine.author)
    with pytest.raises(Denied, match="writes directly"):
        log.record(said("a"))
    assert space.engine.ledger.patches() == []


def test_the_same_messages_of_two_processes_at_once_are_there_once(open_space, tmp_path):
    address = str(tmp_path / "space.db")
    logs = [MessageLog(open_space(address).engine, discussion_ref("garden")) for _ in range(2)]
    outcomes = []
    together = threading.Barrier(2)

    def write(log):
        for start in range(0, 60, 5):
            together.wait()
            outcomes.append(log.record(talk(start, start + 5), start=start))

    threads = [threading.Thread(target=write, args=(log,)) for log in logs]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [kept.text for kept in logs[0].read()] == [message.content for message in talk(0, 60)]
    assert sum(recorded.appended for recorded in outcomes) == 60
    assert sum(recorded.unchanged for recorded in outcomes) == 60
    assert not any(recorded.withdrawn for recorded in outcomes)


def test_appending_from_two_processes_at_once_keeps_everything_in_one_order(open_space, tmp_path):
    address = str(tmp_path / "space.db")
    logs = [MessageLog(open_space(address).engine, discussion_ref("garden")) for _ in range(2)]

    def write(log, name):
        for at in range(25):
            # Every other one after a pause, so that one begins a block while the other adds to the last one.
            when = MORNING + timedelta(hours=5 * at if name == "one" else 0)
            log.append([Message(role="user", content=f"{name} {at}", at=when)])

    threads = [threading.Thread(target=write, args=pair) for pair in zip(logs, ("one", "two"), strict=True)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    kept = logs[0].read()
    assert [one.position for one in kept] == list(range(50))
    assert {one.text for one in kept} == {f"{name} {at}" for name in ("one", "two") for at in range(25)}
    heads = logs[0].blocks()
    assert all(before.end == head.first for before, head in pairwise(heads))


class ReadingNoted:
    """A ledger that notes which objects are read."""

    def __init__(self, ledger):
        self._ledger = ledger
        self.read = []

    def get(self, identity, **options):
        self.read.append(identity)
        return self._ledger.get(identity, **options)

    def __getattr__(self, name):
        return getattr(self._ledger, name)


@pytest.mark.parametrize(
    "write",
    [
        lambda log: log.append(talk(210, 211)),
        lambda log: log.record(talk(210, 212), start=210),
        lambda log: log.record(talk(0, 212)),
        lambda log: log.record([*talk(0, 209), *said("another answer")]),
        lambda log: log.record(talk(0, 209)),
    ],
    ids=["append", "from the end on", "all again with new ones", "another last answer", "a rewind of one"],
)
def test_what_is_written_at_the_end_reads_the_last_block_alone_however_many_there_are(space, log, write):
    log.record(talk(0, 210))
    ledger = ReadingNoted(space.engine.ledger)
    write(MessageLog(replace(space.engine, ledger=ledger), log.ref))
    assert set(ledger.read) == {log.blocks()[-1].source_id}


def test_all_again_reads_nothing(space, log):
    log.record(talk(0, 210))
    ledger = ReadingNoted(space.engine.ledger)
    MessageLog(replace(space.engine, ledger=ledger), log.ref).record(talk(0, 210))
    assert ledger.read == []


class TestDivergence:
    """What becomes of memories when a history that is sent differs from what was kept."""

    def test_only_memories_of_withdrawn_messages_are_archived(self, space, log):
        log.record(talk(0, 20))
        early, late = remember(space, log, 0, 4), remember(space, log, 10, 14)
        recorded = log.record([*talk(0, 12), Message(role="user", content="Something else")])
        assert status(space, early, late) == ["active", "archived"]
        assert recorded.staled == ()

    def test_an_edit_leaves_memories_of_equal_messages_after_it(self, space, log):
        log.record(talk(0, 60))
        first, edited, same, later = (remember(space, log, at, at + 4) for at in (0, 5, 10, 45))
        told = talk(0, 60)
        told[7] = Message(role="assistant", content="Corrected")
        log.record(told)
        assert status(space, first, edited, same, later) == ["active", "archived", "active", "active"]

    def test_an_edit_far_back_archives_memories_of_all_blocks_that_go(self, space, log):
        log.record(talk(0, 90))
        ids = [remember(space, log, at, at + 2) for at in (0, 44, 50, 85)]
        log.record([*talk(0, 46), *said("other words")])
        assert status(space, *ids) == ["active", "archived", "archived", "archived"]

    def test_versions_become_stale_in_the_same_patch(self, space, log):
        log.record(talk(0, 20))
        early, late = remember(space, log, 0, 4), remember(space, log, 10, 14)
        first = remember(space, log, 0, 4, form="rolling_summary", parents=[early])
        second = remember(space, log, 0, 14, form="rolling_summary", parents=[first, late], replaces=first)
        third = remember(space, log, 0, 14, form="rolling_summary", parents=[second, early], replaces=second)
        recorded = log.record([*talk(0, 10), *said("other words")])
        assert status(space, early, late, first, second, third) == [
            *("active", "archived", "superseded", "archived", "stale"),
        ]
        assert recorded.staled == (third,)

    def test_what_another_user_believes_goes_stale_only_without_other_evidence(self, space, log):
        log.record(talk(0, 6))
        kept = log.read(5, 5)[0]
        evidence = {"source_id": kept.source_id, "segment_id": kept.segment_ids[0]}
        other = note(space, "The hedge was cut in May.")
        alone, backed = decide(space, "one", evidence), decide(space, "two", evidence, other)
        log.record([*talk(0, 5), *said("other words")])
        assert status(space, alone, backed) == ["stale", "active"]

    def test_chunks_that_it_touches_are_forgotten_and_others_stay(self, space, log):
        log.record(talk(0, 20))
        states = [ChunkState(at, at + 4, f"chunk {at}", "empty") for at in (0, 5, 10)]
        write(space, log, lambda block: block.changed(chunks=states, condensations=[Condensation(5, 14, "know:x")]))
        told = talk(0, 20)
        told[7] = Message(role="assistant", content="Corrected")
        log.record(told)
        block = log.block(log.blocks()[0])
        assert [state.first for state in block.chunks] == [0, 10]
        assert block.condensations == ()

    def test_what_is_noted_in_a_block_outlives_new_messages(self, space, log):
        log.record(talk(0, 10))
        state = ChunkState(0, 4, "chunk", "failed", attempts=2, error="no answer", retry_at=MORNING, rejected=("{}",))
        write(space, log, lambda block: block.with_chunk(state))
        log.record(talk(0, 50))
        assert log.block(log.blocks()[0]).chunks == (state,)

    def test_a_chunk_has_one_state(self, space, log):
        log.record(talk(0, 10))
        for done in ("failed", "done"):
            write(space, log, lambda block, done=done: block.with_chunk(ChunkState(0, 4, "chunk", done)))
        assert [state.status for state in log.block(log.blocks()[0]).chunks] == ["done"]


class TestDeleting:
    """Taking words away."""

    def test_the_words_go_and_the_position_stays(self, log):
        log.record(said("a b c"))
        assert log.delete([1]).positions == (1,)
        assert texts(log) == "a - c"
        deleted = log.read(1, 1)[0]
        assert (deleted.deleted, deleted.position, deleted.role, deleted.segment_ids) == (True, 1, "user", ())
        assert log.count() == 3

    def test_again_changes_nothing(self, space, log):
        log.record(said("a b c"))
        log.delete([1])
        before = space.engine.ledger.sequence()
        log.delete([1])
        assert space.engine.ledger.sequence() == before

    def test_no_such_position_is_refused(self, log):
        log.record(said("a b"))
        with pytest.raises(InvalidInput, match="at 2, 7"):
            log.delete([7, 0, 2])
        assert texts(log) == "a b"

    def test_memories_of_it_are_archived_and_others_stay(self, space, log):
        log.record(talk(0, 20))
        told, other = remember(space, log, 0, 4), remember(space, log, 5, 9)
        assert log.delete([2]).withdrawn == (told,)
        assert status(space, told, other) == ["archived", "active"]

    def test_nothing_is_found_by_its_words_any_more_not_even_in_the_next_block(self, log):
        log.record([*talk(0, 38), *said("before"), *said("unspeakable"), *said("after")])
        log.delete([39])
        gists = [segment.gist or "" for head in log.blocks() for segment in log.block(head).source.segments]
        assert not any("unspeakable" in gist for gist in gists)
        assert "before" in gists[-1]

    def test_a_history_from_a_start_does_not_bring_it_back(self, log):
        log.record(said("a b c"))
        log.delete([1])
        assert log.record(said("a b c d"), start=0) == Recorded(unchanged=3, appended=1, count=4)
        assert texts(log) == "a - c d"

    def test_different_message_at_erased_position_is_new(self, log):
        log.record(said("a b c"))
        log.delete([1])
        log.record(said("a x c"), start=0)
        assert texts(log) == "a x c"

    def test_erased_nothing_of_the_words_is_left_in_the_file(self, persons_space, tmp_path):
        log = new_log(persons_space)
        log.record([*talk(0, 38), *said("before"), Message(role="user", content="the xylophone is mine")])
        log.append(said("after"))
        told = remember(persons_space, log, 36, 39, title="Somebody owns a xylophone")
        parents = [remember(persons_space, log, 0, 4), told]
        summary = remember(persons_space, log, 0, 39, form="rolling_summary", parents=parents, title="xylophone garden")
        other = remember(persons_space, log, 10, 14)
        log.record([*talk(0, 38), *said("before")], start=0)
        log.record([Message(role="user", content="the xylophone is mine"), *said("after")], start=39)
        assert files_hold(tmp_path / "space.db", "xylophone")
        deleted = log.delete([39], erase=True)
        assert deleted.receipt.clean
        assert deleted.receipt.repeated_in == ()
        assert {told, summary} <= set(deleted.withdrawn)
        assert not files_hold(tmp_path / "space.db", "xylophone")
        assert not any("xylophone" in str(record) for record in records(persons_space))
        assert status(persons_space, other) == "active"
        assert [kept.text for kept in log.tail(3)] == ["before", "", "after"]
        persons_space.engine.ledger.verify()

    def test_erasing_a_deleted_message_removes_its_history(self, persons_space, tmp_path):
        log = new_log(persons_space)
        log.record([*said("a"), Message(role="user", content="the xylophone is mine"), *said("c")])
        log.delete([1])
        assert files_hold(tmp_path / "space.db", "xylophone")
        log.delete([1], erase=True)
        assert not files_hold(tmp_path / "space.db", "xylophone")
        assert texts(log) == "a - c"

    def test_what_rests_on_other_messages_of_the_block_rests_on_them_still(self, persons_space):
        log = new_log(persons_space)
        log.record(talk(0, 20))
        other = remember(persons_space, log, 5, 9)
        write(persons_space, log, lambda block: block.with_chunk(ChunkState(5, 9, "chunk", "done", (other,))))
        log.delete([2], erase=True)
        item = persons_space.engine.ledger.get(other)
        now = {(kept.source_id, segment_id) for kept in log.read(5, 9) for segment_id in kept.segment_ids}
        assert {(ref.source_id, ref.segment_id) for ref in item.evidence_refs} == now
        assert item.status == "active"
        assert [state.memories for state in log.block(log.blocks()[0]).chunks] == [(other,)]

    def test_who_may_not_erase_erases_nothing(self, space, log):
        log.record(said("a b"))
        with pytest.raises(Denied):
            log.delete([1], erase=True)
        assert texts(log) == "a b"

    def test_the_same_words_elsewhere_are_named(self, persons_space):
        log = new_log(persons_space)
        log.record([*talk(0, 40), *said("mine"), *talk(41, 80), *said("mine")])
        receipt = log.delete([40], erase=True).receipt
        assert receipt.repeated_in == (log.blocks()[-1].source_id,)


def write(space, log, change):
    """Write a change of the first block."""
    apply_patch(space.engine, log.ref, [change(log.block(log.blocks()[0]))], reason="A test")


@QUICK
@given(st.data())
def test_reading_gives_what_a_plain_list_would(space, data):
    log, model = new_log(space), []
    for _ in range(data.draw(st.integers(1, 6))):
        words = data.draw(WORDS)
        match data.draw(st.sampled_from(["append", "from a start", "delete", "all, with new ones"])):
            case "append":
                log.append(said(" ".join(words)))
                model += [[word, False] for word in words]
            case "from a start":
                start = data.draw(st.integers(0, len(model)))
                log.record(said(" ".join(words)), start=start)
                kept = [one if one[0] == word else None for one, word in zip(model[start:], words, strict=False)]
                new = [[word, False] for word in words]
                model[start:] = [one or other for one, other in zip([*kept, *[None] * len(new)], new, strict=False)]
            case "delete" if model:
                place = data.draw(st.integers(0, len(model) - 1))
                log.delete([place])
                model[place] = [model[place][0], True]
            case "all, with new ones":
                log.record(said(" ".join([*(word for word, _ in model), "new", *words])), start=0)
                model += [[word, False] for word in ("new", *words)]
    assert [(kept.text, kept.deleted) for kept in log.read()] == [("" if gone else word, gone) for word, gone in model]
    assert [kept.position for kept in log.read()] == list(range(len(model)))
    assert log.count() == len(model)


@QUICK
@given(st.data())
def test_a_client_that_sends_everything_is_followed_through_edits(space, data):
    log, told, fresh = new_log(space), [], count()
    for _ in range(data.draw(st.integers(1, 6))):
        # A history takes back the last message, or no more than agree, at least four.
        last, sure = max(min(1, len(told)), len(told) - 1), max(4, -(-len(told) // 2))
        keep = data.draw(st.integers(min(last, sure), len(told)))
        # What takes something back says something else in its place: a shorter history by itself takes back nothing.
        new = data.draw(st.integers(int(keep < len(told)), 5))
        told = [*told[:keep], *(f"message-{next(fresh)}" for _ in range(new))]
        if told:
            log.record(said(" ".join(told)))
        assert [kept.text for kept in log.read()] == told


@QUICK
@given(st.data())
def test_truncated_transcripts_are_aligned(space, data):
    log, said_so_far, fresh = new_log(space), [], count()
    words = st.sampled_from(["ok", "yes", "new", "new", "new"])
    for _ in range(data.draw(st.integers(1, 8))):
        if len(said_so_far) > 5 and data.draw(st.booleans()):
            said_so_far.pop()  # the last answer is asked for again, or the last question put otherwise
            log.record(said(" ".join(said_so_far[-5:])))
        drawn = [*data.draw(st.lists(words, max_size=2)), "new"]  # nobody can place a window of nothing but "ok"
        said_so_far += [f"message-{next(fresh)}" if word == "new" else word for word in drawn]
        fits = max(len(drawn) + 5, data.draw(st.integers(5, 40)))
        front = ["summary"] if len(said_so_far) > fits + 1 and data.draw(st.booleans()) else []
        log.record(said(" ".join([*front, *said_so_far[-fits:]])))
        assert [kept.text for kept in log.read()] == said_so_far


@QUICK
@given(st.data())
def test_blocks_are_the_same_however_messages_came(space, data):
    hours = data.draw(st.lists(st.sampled_from([0.5, 1, 3, 5]), max_size=12))
    moments = [sum(hours[: at + 1]) if data.draw(st.booleans()) else None for at in range(len(hours))]
    messages = [*at_hours(*moments), *talk(0, data.draw(st.sampled_from([1, 30, 50])))]
    at_once, bit_by_bit = new_log(space), new_log(space)
    at_once.record(messages)
    first = 0
    while first < len(messages):
        size = data.draw(st.sampled_from([1, 2, 20]))
        bit_by_bit.append(messages[first : first + size])
        first += size
    assert shape(at_once) == shape(bit_by_bit)


@QUICK
@given(st.data())
def test_what_stays_in_its_place_keeps_its_ids(space, data):
    log = new_log(space)
    log.record(talk(0, 45))
    before = segment_ids(log)
    changed = data.draw(st.sets(st.integers(0, 44), max_size=3))
    told = [
        Message(role="user", content="Corrected") if at in changed else message
        for at, message in enumerate(talk(0, 45))
    ]
    log.record(told, start=0)
    same = [at for at, (old, new) in enumerate(zip(before, segment_ids(log), strict=True)) if old == new]
    assert set(same) == set(range(45)) - changed


def shape(log):
    """Return everything of the blocks that is not an id, a time or a hash with salt."""
    blocks = [log.block(head) for head in log.blocks()]
    return [
        (
            block.head.first,
            block.source.fingerprint,
            block.source.payload,
            [(part.excerpt, part.gist, part.heading, part.locator, part.position) for part in block.source.segments],
        )
        for block in blocks
    ]


def test_reading_a_changed_discussion_writes_nothing(open_space, tmp_path):
    address = str(tmp_path / "space.db")
    here, there = (open_space(address).engine for _ in range(2))
    MessageLog(there, discussion_ref("garden")).append(talk(0, 3))
    seen = LogSnapshot.of(here.ledger, discussion_ref("garden"))
    MessageLog(there, discussion_ref("garden")).append(talk(3, 4))
    with pytest.raises(Conflict):
        seen.block(seen.heads[-1])


def test_no_name_is_an_empty_name():
    given = Message(content="Hi.", role="user", name=None, id=None)
    assert given == Message(content="Hi.", role="user")


def test_empty_message_is_counted_as_left_out(log):
    result = log.record([Message(role="user", content=" "), Message(role="user", content="Hello")])
    assert (result.appended, result.left_out, result.left_out_reason()) == (1, 1, "1 message was empty and skipped")
