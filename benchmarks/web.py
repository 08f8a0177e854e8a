"""What a page of the web page costs on the server, in a space of 100,000 passages."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import quote_plus

from starlette.testclient import TestClient

import treering
from benchmarks.costs import cost_of, milliseconds, repeated, wall_note
from benchmarks.figures import Figure, Row, at_most
from benchmarks.plan import Plan, workplace
from benchmarks.synthetic import PER_DOCUMENT, StandIn, documents, fill, questions
from treering.extensions.projects.routes import ServedProjects
from treering.extensions.server.app import Serving, build_app

_PASSAGES, _QUICK_PASSAGES = 100_000, 1_000
_ROUNDS = 7
_MOST_MILLISECONDS = 200


def measure(plan: Plan) -> list[Row]:
    """Measure every page of a filled space: CPU time in the server's process, its client included."""
    size = _QUICK_PASSAGES if plan.quick else _PASSAGES
    with workplace() as folder:
        source = _filled(folder / "space.db", size)
        with _served(folder) as client:
            return [_page(client, name, path) for name, path in _pages(source).items()]


def _filled(path: Path, size: int) -> str:
    """Fill a space; return the id of one source."""
    with treering.open(f"sqlite:{path}", background=False, embedder=StandIn()) as space:
        fill(space, documents(size // PER_DOCUMENT))
        space.embed_pending()
        report = space.query("search", input={"text": questions(1)[0]}, options={"descend": True, "limit": 1})
        return report.hits[0].source_id


@contextmanager
def _served(folder: Path) -> Iterator[TestClient]:
    serving = Serving(
        space=f"sqlite:{folder / 'space.db'}",
        parts={"projects": ServedProjects(folder / "projects")},
        background=False,
        embedder=StandIn(),
    )
    with TestClient(build_app(serving), base_url="http://127.0.0.1") as client:
        yield client


def _pages(source: str) -> dict[str, str]:
    asked = quote_plus(questions(1)[0])
    return {
        "start": "/",
        "search": f"/?q={asked}",
        "context pack": f"/?q={asked}&view=pack",
        "object": f"/web/object/{source}",
        "health": "/web/health",
        "graph of an object": f"/web/graph?id={source}",
        "graph of a question": f"/web/graph?q={asked}",
        "timeline": "/web/timeline",
        "timeline, earlier": "/web/timeline?as_of=4000",
        "work": "/web/work",
        "discussions": "/web/discussions",
        "live": "/web/live",
    }


def _page(client: TestClient, name: str, path: str) -> Figure:
    def load() -> None:
        client.get(path).raise_for_status()

    first = cost_of(load)
    cost = repeated(load, _ROUNDS)
    note = f"{wall_note(cost)}; the first time {milliseconds(first.cpu):,.0f} ms"
    return Figure(f"page: {name}", milliseconds(cost.cpu), "ms CPU", at_most(_MOST_MILLISECONDS), note)
