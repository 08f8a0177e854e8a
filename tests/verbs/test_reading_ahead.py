import threading
from collections.abc import Iterator
from itertools import chain

import pytest

from treering.verbs.ingest.report import reading_ahead


def test_items_come_in_order() -> None:
    with reading_ahead(range(500), most=7) as ahead:
        assert list(chain.from_iterable(ahead)) == list(range(500))


def test_all_that_waits_is_taken_at_once() -> None:
    read = threading.Event()

    def items() -> Iterator[int]:
        yield from range(5)
        read.set()
        yield 5

    with reading_ahead(items(), most=10) as ahead:
        assert read.wait(60)
        assert list(next(ahead))[:5] == [0, 1, 2, 3, 4]


def test_no_more_is_read_ahead_than_requested() -> None:
    read: list[int] = []

    def items() -> Iterator[int]:
        for number in range(100):
            read.append(number)
            yield number

    with reading_ahead(items(), most=5) as ahead:
        assert next(ahead)[0] == 0
    assert len(read) <= 6 + 5 + 2  # taken, queued, and in the reader's hand


def test_what_reading_raises_is_raised_where_items_are_taken() -> None:
    def items() -> Iterator[int]:
        yield 1
        raise ValueError("torn page")

    with reading_ahead(items(), most=5) as ahead:
        assert next(ahead) == [1]
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
