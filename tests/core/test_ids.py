import subprocess
import sys
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from treering.core.canonical import PREFIXES, kind_of, make_id, make_segment_id
from treering.core.errors import InvalidInput
from treering.system.machine import SystemClock

NOW = datetime(2026, 1, 31, 12, tzinfo=UTC)
entropy = st.binary(min_size=10, max_size=10)


@pytest.mark.parametrize("kind", PREFIXES)
def test_id_contains_its_kind(kind: str) -> None:
    identity = make_id(kind, at=NOW, entropy=bytes(10))
    assert kind_of(identity) == kind
    assert identity == identity.lower()
    assert identity.startswith(PREFIXES[kind] + ":")


@given(entropy, entropy)
def test_ids_sort_by_time_whatever_the_chance(one: bytes, two: bytes) -> None:
    earlier = make_id("node", at=NOW, entropy=one)
    later = make_id("node", at=NOW + timedelta(milliseconds=1), entropy=two)
    assert earlier < later
    assert len(earlier) == len(later)


@given(entropy, entropy)
def test_different_chance_gives_different_ids(one: bytes, two: bytes) -> None:
    same = make_id("node", at=NOW, entropy=one) == make_id("node", at=NOW, entropy=two)
    assert same == (one == two)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "node",
        "node:",
        "node:short",
        "tree:00000000000000000000000000",
        "node:0000000000000000000000000U",
        "node:000000000000000000000000000",
        " node:00000000000000000000000000",
    ],
)
def test_other_text_is_no_id(text: str) -> None:
    with pytest.raises(InvalidInput) as refused:
        kind_of(text)
    assert refused.value.details == {"given": text}


@given(st.binary(min_size=8, max_size=8))
def test_a_segment_id_is_short_and_plain(chance: bytes) -> None:
    identity = make_segment_id(chance)
    assert identity.startswith("seg_")
    assert len(identity) == 17
    assert identity.removeprefix("seg_").isalnum()


_FORKS = """
import os
from treering.system.machine import SystemClock
clock = SystemClock()
clock.random_bytes(8)
os.fork()
os.write(1, clock.random_bytes(8).hex().encode() + b"\\n")
"""


def test_the_computers_chance_never_repeats_itself() -> None:
    clock = SystemClock()
    drawn = [clock.random_bytes(length) for length in (8, 10, 16, 32) for _ in range(500)]
    assert [len(one) for one in drawn] == [length for length in (8, 10, 16, 32) for _ in range(500)]
    assert len({one[:8] for one in drawn}) == len(drawn)


@pytest.mark.skipif(sys.platform == "win32", reason="there is no fork on Windows")
def test_a_process_that_was_forked_makes_other_ids_than_the_one_before() -> None:
    told = subprocess.run([sys.executable, "-c", _FORKS], capture_output=True, text=True, check=True).stdout.split()
    assert len(set(told)) == 2
