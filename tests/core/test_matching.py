from collections.abc import Sequence

from hypothesis import given
from hypothesis import strategies as st

from treering.core.evidence import changed_stretches, matching_stretches

MANY = 10_000


class Counted:
    """An item that counts how often it is compared or hashed."""

    asked = 0

    def __init__(self, name: str) -> None:
        self.name = name

    def __eq__(self, other: object) -> bool:
        Counted.asked += 1
        return isinstance(other, Counted) and self.name == other.name

    def __hash__(self) -> int:
        Counted.asked += 1
        return hash(self.name)


def rebuilt(old: Sequence[str], new: Sequence[str]) -> list[str]:
    """Return `new`, made of `old` and what changed."""
    made, at = list[str](), 0
    for start, end, first, last in changed_stretches(old, new):
        made += [*old[at:start], *new[first:last]]
        at = end
    return [*made, *old[at:]]


def work(old: str, new: str, most: int = MANY) -> int:
    Counted.asked = 0
    matching_stretches([Counted(one) for one in old[:most]], [Counted(one) for one in new[:most]])
    return Counted.asked


@given(st.lists(st.sampled_from("abc")), st.lists(st.sampled_from("abcd")))
def test_what_changed_makes_one_of_the_other(old: list[str], new: list[str]) -> None:
    assert rebuilt(old, new) == new


@given(st.integers(0, 2**32), st.integers(2, 40), st.integers(400, 700))
def test_what_changed_makes_one_of_the_other_where_they_are_long(seed: int, kinds: int, size: int) -> None:
    old = [str(seed * number**2 % 7919 % kinds) for number in range(size)]
    new = [str(seed * number**3 % 6101 % (kinds + 1)) for number in range(size)]
    assert rebuilt(old, new) == new


def test_an_edit_in_a_long_text_leaves_the_rest_matched() -> None:
    old = [f"line {number}" for number in range(MANY)]
    new = [*old[:3000], "new", *old[3000:7000], *old[7010:]]
    assert [one.size for one in matching_stretches(old, new)] == [3000, 4000, 2990]


def test_what_is_everywhere_the_same_is_matched_and_costs_what_it_is_long() -> None:
    assert sum(one.size for one in matching_stretches("x" + "a" * MANY + "y", "z" + "a" * MANY + "w")) == MANY
    for old, new in (("x" + "a" * MANY, "y" + "a" * MANY + "z"), ("ab" * MANY, "ba" * MANY), ("a" * MANY, "b" * MANY)):
        assert work(old, new) < 200 * MANY
