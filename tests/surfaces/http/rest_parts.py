"""A real server in a thread of this process, on a port of its own."""

from collections.abc import Iterator
from contextlib import contextmanager
from queue import Queue
from threading import Thread
from typing import Any

import httpx

from treering.extensions.discussions.chat import endpoint as chat_endpoint
from treering.extensions.discussions.chat.endpoint import ServedChats
from treering.extensions.projects import routes as project_routes
from treering.extensions.projects.routes import ServedProjects
from treering.extensions.server.app import Serving
from treering.extensions.server.serving import Server, Transport, listen
from treering.surfaces.python import operations
from treering.testing.fakes import HashingEmbedder
from treering.verbs import catalog

EXAMPLES = {
    **{f"wiki_{verb}": examples for verb, examples in catalog.EXAMPLES.items()},
    **{name.replace(" ", "_"): examples for name, examples in operations.EXAMPLES.items()},
    **{f"project_memory_{name}": examples for name, examples in project_routes.EXAMPLES.items()},
    "chat_completions": chat_endpoint.EXAMPLES,
}
"""The bodies that the contract shows, by operation and by what one wants."""


@contextmanager
def running(
    folder: Any,
    transport: Transport | None = None,
    verify: Any = True,
    chats: ServedChats | None = None,
    **changes: Any,
) -> Iterator[httpx.Client]:
    """Serve the space and the projects of a folder; return a client of the server."""
    given = {
        "space": f"sqlite:{folder / 'space.db'}",
        "parts": {"projects": ServedProjects(folder / "projects"), "discussions": chats},
        "background": False,
        "embedder": HashingEmbedder(),
        **changes,
    }
    addresses: Queue[str] = Queue()
    with listen("127.0.0.1", 0) as listener:
        server = Server(Serving(**given), addresses.put, transport)
        thread = Thread(target=server.run, kwargs={"sockets": [listener]})
        thread.start()
        try:
            address = addresses.get(timeout=30)
            with httpx.Client(base_url=address, timeout=60, trust_env=False, verify=verify) as client:
                yield client
        finally:
            server.stop()
            thread.join()


def keep_bees(folder: Any) -> None:
    """Keep a text with its vector, so that a search asks the embedder."""
    items = [{"text": "Bees make honey.", "origin": "note:bees"}]
    body = {"mode": "source", "input": {"items": items}, "options": {"wait": True}}
    with running(folder) as client:
        told = client.post("/v1/wiki/ingest", json=body)
    assert told.status_code == 200, told.text
