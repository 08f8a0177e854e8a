from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from treering.core.audit import GENESIS, Anchor, AuditEvent, verify_chain
from treering.core.errors import Corrupt
from treering.testing.fakes import START

Log = list[AuditEvent]


def make_log(length: int) -> Log:
    events: Log = []
    for seq in range(1, length + 1):
        event = AuditEvent(
            id=f"aud:{seq}",
            seq=seq,
            event_type="created",
            actor="ada",
            channel="user",
            target=f"node:{seq}",
            after={"revision": 1, "status": "active", "hash": "00"},
            timestamp=START,
            patch_id="patch:1",
            prev_hash=events[-1].hash if events else GENESIS,
        )
        events.append(event.sealed())
    return events


def anchor_of(events: Log) -> Anchor:
    return Anchor(seq=events[-1].seq, hash=events[-1].hash)


def test_an_empty_log_verifies() -> None:
    assert verify_chain([]) == Anchor(seq=0, hash=GENESIS)
    assert verify_chain([], anchor=Anchor(seq=0, hash=GENESIS)) == Anchor(seq=0, hash=GENESIS)


@given(st.integers(1, 5), st.integers(1, 5))
def test_a_whole_log_verifies_and_passes_through_any_of_its_anchors(length: int, at: int) -> None:
    log = make_log(length)
    assert verify_chain(log) == anchor_of(log)
    assert verify_chain(log, anchor=anchor_of(log[: min(at, length)])) == anchor_of(log)


@pytest.mark.parametrize(
    "change",
    [
        {"actor": "eve"},
        {"reason": "x"},
        {"target": "node:9"},
        {"before": {"revision": 1}},
        {"after": None},
        {"prev_hash": "1" * 40},
        {"hash": "1" * 40},
        {"channel": "system"},
    ],
)
@pytest.mark.parametrize("seq", [1, 2, 3])
def test_an_edit_is_found_where_it_is(change: dict[str, object], seq: int) -> None:
    log = make_log(3)
    log[seq - 1] = log[seq - 1].model_copy(update=change)
    with pytest.raises(Corrupt, match=f"event {seq} was changed") as found:
        verify_chain(log)
    assert found.value.details == {"seq": seq}


def test_an_edit_that_seals_its_event_again_is_found_at_the_next() -> None:
    log = make_log(3)
    log[1] = log[1].model_copy(update={"actor": "eve"}).sealed()
    with pytest.raises(Corrupt) as found:
        verify_chain(log)
    assert found.value.details == {"seq": 3}


@pytest.mark.parametrize(
    ("damage", "missing", "found"),
    [
        (lambda log: log[1:], 1, 2),
        (lambda log: log[:1] + log[2:], 2, 3),
        (lambda log: [log[1], log[0], log[2]], 1, 2),
        (lambda log: [*log, log[-1]], 4, 3),
        (lambda log: [log[0], log[0], *log[1:]], 2, 1),
        (lambda log: list(reversed(log)), 1, 3),
    ],
)
def test_deletion_repetition_and_another_order_are_found(
    damage: Callable[[Log], Log], missing: int, found: int
) -> None:
    with pytest.raises(Corrupt, match=f"event {missing} is missing") as refused:
        verify_chain(damage(make_log(3)))
    assert refused.value.details == {"seq": found}
    assert "backup" in refused.value.hint


def test_a_cut_tail_shows_only_against_an_anchor() -> None:
    log = make_log(3)
    verify_chain(log[:2])
    with pytest.raises(Corrupt, match="anchor at event 3") as refused:
        verify_chain(log[:2], anchor=anchor_of(log))
    assert refused.value.details == {"seq": 3}


def test_a_log_written_anew_shows_only_against_an_anchor() -> None:
    log = make_log(3)
    anew = make_log(1)
    anew.append(log[1].model_copy(update={"actor": "eve"}).sealed())
    anew.append(log[2].model_copy(update={"prev_hash": anew[1].hash}).sealed())
    verify_chain(anew)
    with pytest.raises(Corrupt):
        verify_chain(anew, anchor=anchor_of(log))
