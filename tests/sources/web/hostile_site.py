"""A server on the loopback that answers as a test tells it, also as no server should."""

import threading
from collections.abc import Callable, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

Answer = Callable[[BaseHTTPRequestHandler], None]


def page(body: bytes | str, kind: str = "text/html", status: int = 200, **headers: str) -> Answer:
    """Return an answer with a body."""
    data = body.encode() if isinstance(body, str) else body

    def answer(handler: BaseHTTPRequestHandler) -> None:
        handler.send_response(status)
        given = {name.replace("_", "-"): value for name, value in headers.items()}
        for name, value in {"Content-Type": kind, "Content-Length": str(len(data)), **given}.items():
            handler.send_header(name, value)
        handler.end_headers()
        handler.wfile.write(data)

    return answer


@contextmanager
def site(answers: Mapping[str, Answer]):
    """Serve answers by path; yield the address of the server, and what was asked for with its headers."""
    asked: list[tuple[str, dict[str, str]]] = []

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            asked.append((self.path, dict(self.headers)))
            try:
                answers.get(self.path, page("nothing", status=404))(self)
            except OSError:  # who asked has hung up
                return

        def log_message(self, *_: object) -> None:
            return

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
    thread.start()
    try:
        yield f"http://site.test:{server.server_port}", asked
    finally:
        server.shutdown()
        server.server_close()
