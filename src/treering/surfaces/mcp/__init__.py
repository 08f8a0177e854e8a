"""The four tools for agents, over the Model Context Protocol."""

import gc
from collections.abc import Iterator
from contextlib import contextmanager

__all__ = ["build_server", "serve"]


@contextmanager
def _collector_paused() -> Iterator[None]:
    # Loading the protocol's library makes some hundred thousand lasting objects and is most of the time a client
    # waits for its handshake; looking for garbage among them takes a tenth of it and finds none.
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


with _collector_paused():
    from treering.surfaces.mcp.server import build_server, serve
