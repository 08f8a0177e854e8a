"""How often each key asks: so many requests in a minute, all at once or one after the other."""

from collections.abc import Callable
from http import HTTPStatus
from math import ceil
from time import monotonic

from treering.core.errors import Unavailable
from treering.edges.surfaces.rest.failures import Refusal

_MINUTE = 60.0
_FORGET_FROM = 1_024


class RequestRates:
    """Counts the requests of keys. Only the event loop's thread comes here: counting needs no lock.

    The generic cell rate algorithm (ITU-T I.371): a key that has been silent for a minute may send a minute's number
    of requests at once; from then on one more each time that its share of the minute is over.
    """

    def __init__(self, *, time: Callable[[], float] = monotonic) -> None:
        self._time = time
        self._used_until: dict[str, float] = {}
        """When what a key has used is given back, by its id."""

    def count(self, key: str, per_minute: int | None) -> None:
        """Count a request. Raises `Refusal` (429) for one too many, which is not counted; `None` allows any number."""
        if per_minute is None:
            return
        now, share = self._time(), _MINUTE / per_minute
        used_until = max(self._used_until.get(key, now), now)
        wait = used_until + share - _MINUTE - now
        if wait > 1e-6:  # a minute's shares, added one by one, are a little more or less than a minute
            raise _too_often(per_minute, wait)
        self._used_until[key] = used_until + share
        if len(self._used_until) > _FORGET_FROM:
            self._forget(now)

    def _forget(self, now: float) -> None:
        """Forget keys that have all of their minute again."""
        self._used_until = {key: until for key, until in self._used_until.items() if until > now}


def _too_often(per_minute: int, wait: float) -> Refusal:
    seconds = max(1, ceil(wait))
    return Refusal(
        HTTPStatus.TOO_MANY_REQUESTS,
        Unavailable(
            f"More than {per_minute:,} requests in a minute.",
            hint=f"Try again in {seconds} s. `treering key create --requests-per-minute` sets the number of a key.",
            details={"requests_per_minute": per_minute},
        ),
        code="too_many_requests",
        headers={"Retry-After": str(seconds)},
    )
