from typing import get_args

import pytest

from treering.core.errors import IllegalTransition
from treering.core.lifecycle import CURRENT, INITIAL, TRANSITIONS, WITHDRAWN_BY_CASCADE, check_transition, is_current
from treering.core.objects import TYPES, Object
from treering.testing.builders import Builder
from treering.testing.clocks import SteppingClock

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


@pytest.mark.parametrize("kind", TYPES)
def test_every_status_can_be_reached(kind: str) -> None:
    reached = set(INITIAL[kind])
    for _ in TRANSITIONS[kind]:
        reached |= {to for status in reached for to in TRANSITIONS[kind][status]}
    assert reached == TRANSITIONS[kind].keys()


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
