"""A server with keys, and keys of every right that open its space, a part of it, another space, or a project."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import httpx
from rest_parts import running

from treering.extensions.server.keys import GRANTED, make_key, space_name
from treering.ports.stores import AccessKeys
from treering.spaces.wiring import open_access_keys
from treering.system.address import file_address
from treering.system.machine import SystemClock

RIGHTS = tuple(GRANTED)


@dataclass(frozen=True)
class Guarded:
    """A running server that needs keys."""

    client: httpx.Client
    keys: AccessKeys
    folder: Path

    @property
    def place(self):
        return file_address(self.folder / "keys.db")

    def key(self, right="read", *, space="space.db", project="", **options) -> str:
        """Make a key of the server's space, of another one, or of a project."""
        file = self.folder / "projects" / f"{project}.db" if project else self.folder / space
        name = options.pop("name", f"key {len(self.keys.all())}")
        shown, key = make_key(
            name, right=right, space=space_name(file_address(file), self.place), clock=SystemClock(), **options
        )
        self.keys.add(key)
        return shown

    def dead_keys(self) -> dict[str, str]:
        """Return what opens nothing, by what is wrong with it, though each had or names the right to everything."""
        live = self.key("admin")
        revoked = self.key("admin")
        self.keys.revoke(revoked.split("_")[1], at=datetime.now(UTC))
        expired, kept = make_key(
            "expired",
            right="admin",
            space=space_name(file_address(self.folder / "space.db"), self.place),
            clock=SystemClock(),
        )
        self.keys.add(replace(kept, expires=datetime.now(UTC) - timedelta(seconds=1)))
        return {
            "no key": "",
            "revoked": revoked,
            "expired": expired,
            "the secret of another key": f"{live[:21]}{revoked[21:]}",
            "the id of another key": f"{revoked[:21]}{live[21:]}",
            "no secret": live[:21],
            "an unknown id": f"trk_{'0' * 16}_{live[21:]}",
            "more behind it": f"{live}a",
            "a wildcard": "trk_%_%",
        }

    def ask(self, key, method, path, **options) -> httpx.Response:
        """Send a request with a key."""
        headers = {**options.pop("headers", {}), **({"Authorization": f"Bearer {key}"} if key else {})}
        return self.client.request(method, path, headers=headers, **options)

    def verb(self, key, verb, **envelope) -> httpx.Response:
        """Call a verb with a key."""
        return self.ask(key, "POST", f"/v1/wiki/{verb}", json=envelope)


@contextmanager
def guarded(folder: Path, **changes) -> Iterator[Guarded]:
    """Serve the space and the projects of a folder to whoever has a key."""
    address = file_address(folder / "keys.db")
    keys = open_access_keys(address, create=True)
    try:
        with running(folder, keys=address, **changes) as client:
            yield Guarded(client, keys, folder)
    finally:
        keys.close()
