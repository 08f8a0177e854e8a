import asyncio
from threading import Event, Lock

import pytest

from treering.extensions.server import workers
from treering.extensions.server.workers import Stop, Workers


async def connected():
    """Wait, as for a client that stays connected."""
    await asyncio.Event().wait()


def results(*works, reads):
    async def run():
        threads = Workers(8, stop=Stop(), reads_at_once=1)
        return await asyncio.gather(*(threads.run(connected, work, seconds=30, reads=reads) for work in works))

    return asyncio.run(run())


class Counted:
    """Work that notes how many ran at once; each waits for another one for at most a moment."""

    def __init__(self):
        self.most, self._now, self._lock, self._both = 0, 0, Lock(), Event()

    def __call__(self):
        with self._lock:
            self._now += 1
            self.most = max(self.most, self._now)
            if self._now > 1:
                self._both.set()
        self._both.wait(0.2)
        with self._lock:
            self._now -= 1


@pytest.mark.parametrize(("reads", "at_once"), [(True, 1), (False, 2)])
def test_reads_run_one_after_another(monkeypatch, reads, at_once):
    monkeypatch.setattr(workers, "ALONE_SECONDS", 60.0)
    counted = Counted()
    results(counted, counted, reads=reads)
    assert counted.most == at_once


def test_a_long_read_lets_others_run(monkeypatch):
    monkeypatch.setattr(workers, "ALONE_SECONDS", 0.0)
    done = Event()
    assert results(lambda: done.wait(20), lambda: done.set() or "short", reads=True) == [True, "short"]


def test_the_read_after_a_failed_one_runs(monkeypatch):
    monkeypatch.setattr(workers, "ALONE_SECONDS", 60.0)

    async def run():
        threads = Workers(8, stop=Stop(), reads_at_once=1)
        with pytest.raises(ZeroDivisionError):
            await threads.run(connected, lambda: 1 // 0, seconds=30, reads=True)
        return await threads.run(connected, lambda: "next", seconds=30, reads=True)

    assert asyncio.run(run()) == "next"


def test_load_counts_waiting_reads(monkeypatch):
    monkeypatch.setattr(workers, "ALONE_SECONDS", 60.0)
    go_on = Event()

    async def run():
        threads = Workers(8, stop=Stop(), reads_at_once=1)
        reads = [
            asyncio.create_task(threads.run(connected, lambda: go_on.wait(20), seconds=30, reads=True)) for _ in "ab"
        ]
        while threads.load() != (1, 1):
            await asyncio.sleep(0)
        go_on.set()
        return await asyncio.gather(*reads)

    assert asyncio.run(run()) == [True, True]
