from datetime import timedelta
from typing import get_args

import pytest

from treering.core.errors import IllegalTransition
from treering.core.objects import TYPES, Object
from treering.core.policy import (
    CURRENT,
    INITIAL,
    TRANSITIONS,
    WITHDRAWN_BY_CASCADE,
    check_transition,
    is_current,
    is_over,
)
from treering.testing.builders import Builder, day
from treering.testing.fakes import SteppingClock

MOVES = [(kind, start, to) for kind, table in TRANSITIONS.items() for start in table for to in table]
"""All pairs of statuses, allowed or not."""


@pytest.mark.parametrize("kind", TYPES)
def test_the_tables_speak_of_exactly_the_statuses_there_are(kind: str) -> None:
    statuses = set(get_args(TYPES[kind].model_fields["status"].annotation))
    assert TRANSITIONS[kind].keys() == statuses
    assert all(targets <= statuses for targets in TRANSITIONS[kind].values())
    assert INITIAL[kind] <= statuses
    assert CURRENT[kind] <= statuses


@pytest.mark.parametrize("kind", TYPES)
def test_nothing_moves_to_where_it_is(kind: str) -> None:
    assert all(status not in targets for status, targets in TRANSITIONS[kind].items())


ONLY_BY_MERGE = {"withheld"}


@pytest.mark.parametrize("kind", TYPES)
def test_every_status_can_be_reached(kind: str) -> None:
    reached = set(INITIAL[kind])
    for _ in TRANSITIONS[kind]:
        reached |= {to for status in reached for to in TRANSITIONS[kind][status]}
    assert reached == TRANSITIONS[kind].keys() - ONLY_BY_MERGE


def test_the_cascade_withdraws_only_what_was_current() -> None:
    assert CURRENT["knowledge"].issuperset(WITHDRAWN_BY_CASCADE)


@pytest.mark.parametrize(("kind", "start", "to"), MOVES)
def test_a_move_is_allowed_exactly_where_the_table_has_it(kind: str, start: str, to: str) -> None:
    make = Builder(SteppingClock())
    objects: dict[str, Object] = {
        "source": make.source("x"),
        "node": make.node("x"),
        "knowledge": make.fact("x", "y", 1),
        "activity": make.activity("x"),
        "work_item": make.work("x"),
    }
    item = objects[kind].model_copy(update={"status": start})
    assert is_current(item) == (start in CURRENT[kind])
    if to in TRANSITIONS[kind][start]:
        check_transition(item, to)
        return
    with pytest.raises(IllegalTransition) as refused:
        check_transition(item, to)
    assert repr(start) in refused.value.message
    assert repr(to) in refused.value.message
    assert refused.value.details["allowed"] == sorted(TRANSITIONS[kind][start])


def test_knowledge_is_over_from_the_moment_its_validity_ends() -> None:
    make, end = Builder(SteppingClock()), day("2026-01-01")
    fact = make.fact("x", "y", 1, valid_until=end)
    assert [is_over(fact, now=now) for now in (end - timedelta(seconds=1), end)] == [False, True]
    assert not is_over(make.fact("x", "y", 1), now=end)


def test_work_is_over_once_it_is_archived_whatever_its_status() -> None:
    make, now = Builder(SteppingClock()), day("2026-01-01")
    assert is_over(make.work("x", lifecycle_state="archived"), now=now)
    assert not is_over(make.work("x", status="closed"), now=now)
