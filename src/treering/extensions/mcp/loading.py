"""Loading the MCP server: its protocol library is most of the time that a client waits for the handshake."""

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def _collector_paused() -> Iterator[None]:
    # Loading the library creates some hundred thousand lasting objects; garbage collection takes a tenth of the time
    # and finds none.
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


with _collector_paused():
    from treering.extensions.mcp.server import build_server, serve

__all__ = ["build_server", "serve"]
