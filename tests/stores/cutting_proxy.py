"""A socket before a Postgres server that can cut connections: behind a commit, before its answer is passed on."""

import socket
import threading
from contextlib import suppress
from pathlib import Path

_NAME = ".s.PGSQL.5432"


class CuttingProxy:
    """Passes on what clients and the server say. Once `cut` is set, the next commit is the last word on its
    connection: the server does it, and the client never learns."""

    def __init__(self, folder: Path, server: Path) -> None:
        self.cut = threading.Event()
        self._server = str(server / _NAME)
        self._listening = socket.socket(socket.AF_UNIX)
        self._listening.bind(str(folder / _NAME))
        self._listening.listen()
        self._threads = [threading.Thread(target=self._accept, daemon=True)]
        self._threads[0].start()

    def close(self) -> None:
        """Stop listening. Call it once all clients are gone."""
        self._listening.shutdown(socket.SHUT_RDWR)
        self._listening.close()
        for thread in self._threads:
            thread.join(10)

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listening.accept()
            except OSError:
                return
            thread = threading.Thread(target=self._serve, args=(client,), daemon=True)
            self._threads.append(thread)
            thread.start()

    def _serve(self, client: socket.socket) -> None:
        with client, socket.socket(socket.AF_UNIX) as server:
            server.connect(self._server)
            answering = threading.Thread(target=self._pass_on, args=(server, client), daemon=True)
            answering.start()
            while said := _received(client):
                cutting = self.cut.is_set() and b"COMMIT\0" in said
                if cutting:
                    client.shutdown(socket.SHUT_RDWR)
                server.sendall(said)
                if cutting:
                    self.cut.clear()
                    break
            server.shutdown(socket.SHUT_WR)
            answering.join(10)

    def _pass_on(self, server: socket.socket, client: socket.socket) -> None:
        while said := _received(server):
            with suppress(OSError):  # of a client that was cut off, what the server says is dropped
                client.sendall(said)


def _received(connection: socket.socket) -> bytes:
    try:
        return connection.recv(65_536)
    except OSError:
        return b""
