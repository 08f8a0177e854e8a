import threading
from collections.abc import Iterator

import pytest

from treering.tools.reading_ahead import reading_ahead


def test_items_come_in_order() -> None:
    with reading_ahead(range(500), most=7) as ahead:
        assert list(ahead) == list(range(500))


def test_no_more_is_read_ahead_than_asked_for() -> None:
    read: list[int] = []

    def items() -> Iterator[int]:
        for number in range(100):
            read.append(number)
            yield number

    with reading_ahead(items(), most=5) as ahead:
        assert next(ahead) == 0
    assert len(read) <= 1 + 5 + 2  # taken, queued, and in the reader's hand


def test_what_reading_raises_is_raised_where_items_are_taken() -> None:
    def items() -> Iterator[int]:
        yield 1
        raise ValueError("torn page")

    with reading_ahead(items(), most=5) as ahead:
        assert next(ahead) == 1
        with pytest.raises(ValueError, match="torn page"):
            next(ahead)


def test_leaving_early_closes_what_was_read() -> None:
    closed = threading.Event()

    def items() -> Iterator[int]:
        try:
            yield from range(1000)
        finally:
            closed.set()

    with reading_ahead(items(), most=2) as ahead:
        next(ahead)
    assert closed.is_set()
