import pytest

from treering.core.errors import Conflict, InvalidInput
from treering.tools.retrying import ATTEMPTS, retry_on_conflict


class Beaten:
    """A write that somebody else beats some times, and that counts how often it is tried."""

    def __init__(self, times, error=Conflict):
        self.times = times
        self.error = error
        self.tried = 0

    def __call__(self):
        self.tried += 1
        if self.tried <= self.times:
            raise self.error(f"Somebody was first, {self.tried} times.", hint="Again.")
        return f"written at try {self.tried}"


def test_a_write_is_tried_again_until_nobody_is_first():
    write = Beaten(2)
    assert retry_on_conflict(write) == "written at try 3"


@pytest.mark.parametrize("attempts", [1, 2, ATTEMPTS])
def test_after_so_many_attempts_the_last_conflict_is_raised(attempts):
    write = Beaten(attempts)
    with pytest.raises(Conflict, match=f"first, {attempts} times"):
        retry_on_conflict(write, attempts=attempts)
    assert write.tried == attempts


def test_another_error_is_not_tried_again():
    write = Beaten(1, InvalidInput)
    with pytest.raises(InvalidInput):
        retry_on_conflict(write)
    assert write.tried == 1
