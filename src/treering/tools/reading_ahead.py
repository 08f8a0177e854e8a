"""Reading ahead in a thread, so that reading what comes and writing what came overlap."""

import threading
from collections.abc import Generator, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from contextvars import copy_context
from dataclasses import dataclass
from queue import Empty, Full, Queue
from typing import Generic, TypeVar

_Item = TypeVar("_Item")
_PAUSE = 0.05  # seconds between looks at whether the reader of the queue has gone


@dataclass(frozen=True, slots=True)
class _Read(Generic[_Item]):
    item: _Item


@dataclass(frozen=True, slots=True)
class _Ended:
    error: BaseException | None


@contextmanager
def reading_ahead(items: Iterable[_Item], *, most: int) -> Iterator[Iterator[Sequence[_Item]]]:
    """Yield the items in order, up to `most` of them read before they are asked for; each time all that wait.

    What reading raises is raised where the items are taken. Leaving early stops the reading and closes `items`
    where it can be closed.
    """
    queue: Queue[_Read[_Item] | _Ended] = Queue(most)
    stopping = threading.Event()
    # In this thread's context: reading ends with the call it is for (`ports.interrupt`).
    context, arguments = copy_context(), (_read, items, queue, stopping)
    thread = threading.Thread(target=context.run, args=arguments, name="treering-reader", daemon=True)
    thread.start()
    try:
        yield _taken(queue)
    finally:
        stopping.set()
        thread.join()


def _taken(queue: "Queue[_Read[_Item] | _Ended]") -> Iterator[Sequence[_Item]]:
    ended: _Ended | None = None
    while ended is None:
        waiting = [queue.get(), *_waiting(queue)]
        if items := [entry.item for entry in waiting if isinstance(entry, _Read)]:
            yield items
        ended = next((entry for entry in waiting if isinstance(entry, _Ended)), None)
    if ended.error:
        raise ended.error


def _waiting(queue: "Queue[_Read[_Item] | _Ended]") -> Iterator[_Read[_Item] | _Ended]:
    with suppress(Empty):
        for _ in range(queue.maxsize):
            yield queue.get_nowait()


def _read(items: Iterable[_Item], queue: "Queue[_Read[_Item] | _Ended]", stopping: threading.Event) -> None:
    ended = _Ended(None)
    try:
        for item in items:
            if not _put(_Read(item), queue, stopping):
                break
    except BaseException as error:  # noqa: BLE001 - whatever it is, the thread that takes the items raises it
        ended = _Ended(error)
    finally:
        if isinstance(items, Generator):
            items.close()
        _put(ended, queue, stopping)


def _put(entry: _Read[_Item] | _Ended, queue: "Queue[_Read[_Item] | _Ended]", stopping: threading.Event) -> bool:
    """Wait for room; tell whether there was any before nobody wanted more."""
    while not stopping.is_set():
        try:
            queue.put(entry, timeout=_PAUSE)
        except Full:
            continue
        return True
    return False
