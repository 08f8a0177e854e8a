import pytest

from treering.core.errors import Conflict, Denied, NotFound
from treering.verbs.engine import retry_on_conflict


class Work:
    """Fails with some errors in turn, then is done; counts its calls."""

    def __init__(self, *errors):
        self.left = list(errors)
        self.calls = 0

    def __call__(self):
        self.calls += 1
        if self.left:
            raise self.left.pop(0)
        return "done"


def test_work_is_called_again_until_nobody_is_first():
    work = Work(*[Conflict("first")] * 4)
    assert (retry_on_conflict(work, attempts=5), work.calls) == ("done", 5)


def test_the_error_of_the_last_attempt_is_raised():
    work = Work(*(Conflict(f"attempt {number}") for number in range(1, 9)))
    with pytest.raises(Conflict, match="attempt 3"):
        retry_on_conflict(work, attempts=3)


def test_other_errors_are_raised_at_once():
    work = Work(NotFound("gone"), Denied("no"))
    with pytest.raises(Denied):
        retry_on_conflict(work, on=(Conflict, NotFound))
    assert work.calls == 2
