"""Project memory over HTTP: `POST /api/projects/{project_id}/memory/index|retrieve|delete`."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Annotated, Any

from anyio.to_thread import run_sync
from fastapi import Request, Response
from pydantic import Field, RootModel

from treering.core.evidence import Triple
from treering.core.scope import ROOT
from treering.extensions.projects.project import MOST_QUERIES, MOST_RETRIEVED, DeleteReport, IndexReport, ProjectMemory
from treering.extensions.projects.spaces import ProjectModels, ProjectSpaces, projects_place
from treering.extensions.server.callers import Bounds, Caller, RouteAccess, caller_of
from treering.extensions.server.contract import Route, Schema, parse_body, read_body
from treering.extensions.server.served import ServedPart, ServerContext
from treering.extensions.server.workers import Workers, report_progress
from treering.system.address import Address
from treering.system.settings import Settings
from treering.verbs import catalog
from treering.verbs.engine import Engine
from treering.verbs.envelope import DECIDES, READS, WRITES, Answer, Envelope, Operation, Report, Value, require
from treering.verbs.feedback import FEEDBACK
from treering.verbs.lint.erasure import ERASE

_PATH = "/api/projects/{project_id}/memory"
_PROJECT: Schema = {
    "name": "project_id",
    "in": "path",
    "required": True,
    "description": "1 to 64 letters (A-Z), digits, '.', '_' or '-', starting with a letter or digit, without '..'.",
    "schema": {"type": "string", "pattern": r"^(?!.*\.\.)[A-Za-z0-9][A-Za-z0-9._\-]{0,63}$"},
    "example": "acme-web",
}
_MAKES_NONE = "An empty project has no results and no knowledge."
_SAYS_SOMETHING = r"[^\s\x1c-\x1f\x85]"
# The pattern is documentation only; the memory checks it with a better error message.
_Text = Annotated[str, Field(json_schema_extra={"pattern": _SAYS_SOMETHING})]
_Docs = Annotated[tuple[_Text, ...], Field(description="Plain texts; the same text is the same document.")]

EXAMPLES: Mapping[str, Mapping[str, Mapping[str, Any]]] = {
    "index": {
        "two documents": {"docs": ["Ada Lovelace wrote the first program.", "Charles Babbage built engines."]},
        "what a document states": {
            "docs": ["Ada Lovelace worked with Charles Babbage."],
            "triples": [[{"subject": "Ada Lovelace", "relation": "worked with", "object": "Charles Babbage"}]],
        },
    },
    "retrieve": {
        "one question": {"queries": ["Who wrote the first program?"], "num_to_retrieve": 2},
    },
    "delete": {
        "one document": {"docs": ["Charles Babbage built engines."]},
    },
}
"""Example bodies of each route, by purpose."""


class IndexRequest(Value):
    """Documents to store."""

    docs: _Docs
    triples: tuple[tuple[Triple, ...], ...] | None = Field(
        default=None,
        description=(
            "Known statements of each document, one list per document (which may be empty); more "
            "are extracted from the texts."
        ),
    )
    wait: bool = Field(default=False, description="Wait until they are embedded.")


class RetrieveRequest(Value):
    """Questions to find documents for."""

    queries: Annotated[tuple[_Text, ...], Field(max_length=MOST_QUERIES, description="Questions or words.")]
    num_to_retrieve: int = Field(
        default=5, ge=1, le=MOST_RETRIEVED, description="Maximum number of results per question."
    )


class DeleteRequest(Value):
    """Documents to delete."""

    docs: _Docs
    erase: bool = Field(
        default=False,
        description=(
            "Erase them from the history too; takes time. Denied unless the project's policy "
            "lets agents erase: this server writes as one."
        ),
    )


class Retrieved(Value):
    """The documents found for a question, best first; a higher score answers it better."""

    question: str
    docs: tuple[str, ...]
    doc_scores: tuple[float, ...]


class RetrievedForAll(RootModel[tuple[Retrieved, ...]]):
    """Results, one element per question."""


@dataclass(frozen=True, slots=True)
class ServedProjects:
    """The projects and models of a server; by default only the built-in embedder."""

    place: Path | Address
    models: ProjectModels = field(default_factory=ProjectModels)

    @classmethod
    def of(cls, place: str, settings: Settings) -> "ServedProjects":
        """Return the configured projects. An empty place is the default one."""
        return cls(projects_place(place or settings.projects_dir, settings), ProjectModels.of(settings))


def serve_projects(context: ServerContext, chosen: ServedProjects | None) -> ServedPart:
    """Serve project memory."""
    served = chosen or ServedProjects.of("", Settings.read())
    spaces = ProjectSpaces(
        served.place,
        background=context.background,
        embedder=served.models.open_embedder() or context.embedder,
    )
    model = served.models.open_model()

    def memory(caller: Caller) -> ProjectMemory:
        @contextmanager
        def lend(project_id: str, *, create: bool) -> Iterator[Engine]:
            context.stop.check()
            with spaces.engine(project_id, create=create) as engine:
                yield engine.with_progress(report_progress).with_author(caller.author or engine.author)

        return ProjectMemory(lend, model=model)

    async def close() -> None:
        await run_sync(spaces.close)

    return ServedPart(
        routes=routes(memory, context.workers, context.bounds),
        spaces=_ReadProjects(spaces),
        look_after=spaces.look_after,
        close=close,
    )


class _ReadProjects:
    """The projects of a server, as its pages, keys and metrics use them."""

    def __init__(self, spaces: ProjectSpaces) -> None:
        self.ids, self.address, self.count_open = spaces.ids, spaces.address, spaces.count_open
        self.for_pages = partial(ProjectPages, spaces)


class ProjectPages:
    """The space of a project for its pages. Raises `UnknownProject` if it does not exist."""

    scope = ROOT
    """Keys of a project apply to its whole space."""

    def __init__(
        self, spaces: ProjectSpaces, project_id: str, caller: Caller, *, check_stop: Callable[[], None]
    ) -> None:
        self._spaces = spaces
        self._project_id = project_id
        self._caller = caller
        self._check_stop = check_stop

    def check(self) -> bool:
        """Open the project's space. Raises `UnknownProject` if it does not exist."""
        with self._engine():
            return True

    def call(self, verb: str, envelope: Envelope, *, as_person: bool = False) -> Report:
        """Run a mode of a verb with the caller's rights."""
        granted = self._caller.granted_besides
        if as_person:
            require(f"{verb} {envelope.mode}", DECIDES, granted=granted)
        with self._engine() as engine:
            author = self._caller.author or engine.author
            author = author.model_copy(update={"channel": "user"}) if as_person else author
            return catalog.call(engine.with_author(author), verb, envelope, granted=granted)

    def perform(self, operation: Operation[Answer], *, given: Mapping[str, Any], options: Mapping[str, Any]) -> Answer:
        """Run a read-only operation."""
        with self._engine() as engine:
            return operation.perform(engine, given=given, options=options, granted=READS)

    def grants(self, operation: Operation[Any]) -> bool:
        """Return whether the caller may run an operation; reviews are never allowed."""
        return not operation.rights.beyond(self._caller.granted_besides if operation.name in _ON_PAGES else READS)

    @contextmanager
    def _engine(self) -> Iterator[Engine]:
        self._check_stop()
        with self._spaces.engine(self._project_id, create=False) as engine:
            yield engine


_ON_PAGES = frozenset({FEEDBACK.name})
"""The writing operations on pages of a project."""


MemoryOf = Callable[[Caller], ProjectMemory]
"""Returns the memory of projects on behalf of a caller."""


def routes(memory: MemoryOf, workers: Workers, bounds: Bounds) -> Sequence[Route]:
    """Return the routes of project memory."""
    route = partial(_route, workers, bounds)
    return (
        route(
            "index",
            "Store documents, each once.",
            lambda caller, project, given: memory(caller).index(
                project, given.docs, triples=given.triples, wait=given.wait
            ),
            description="Creates the project if it does not exist.",
            writes=True,
            takes=IndexRequest,
            gives=IndexReport,
            links={"retrieve documents": _same_project("retrieve"), "delete it": _same_project("delete")},
        ),
        route(
            "retrieve",
            "Find the documents that best answer questions.",
            lambda caller, project, given: memory(caller).retrieve(project, given.queries, given.num_to_retrieve),
            description=_MAKES_NONE,
            writes=False,
            takes=RetrieveRequest,
            gives=RetrievedForAll,
        ),
        route(
            "delete",
            "Delete documents by their exact text.",
            lambda caller, project, given: _delete(memory(caller), caller, project, given),
            description=_MAKES_NONE,
            writes=True,
            takes=DeleteRequest,
            gives=DeleteReport,
            links={"index again": _same_project("index")},
        ),
    )


def _delete(memory: ProjectMemory, caller: Caller, project_id: str, given: DeleteRequest) -> DeleteReport:
    if given.erase and caller.has_key:
        require("delete with erase", ERASE.rights, granted=caller.granted_besides)
    return memory.delete(project_id, given.docs, erase=given.erase)


def _route(
    workers: Workers,
    bounds: Bounds,
    name: str,
    summary: str,
    work: Callable[[Caller, str, Any], Any],
    *,
    description: str,
    writes: bool,
    takes: Any,
    gives: Any,
    links: Schema | None = None,
) -> Route:
    seconds = bounds.work_seconds if writes else bounds.read_seconds

    def worked(caller: Caller, project_id: str, body: bytes) -> str:
        result = work(caller, project_id, parse_body(takes, body))
        return str(gives.model_validate(result).model_dump_json())

    async def answer(project_id: str, request: Request) -> Response:
        call = partial(worked, caller_of(request), project_id, await read_body(request))
        content = await workers.run(request.receive, call, seconds=seconds, reads=not writes)
        return Response(content, media_type="application/json")

    return Route(
        method="POST",
        path=f"{_PATH}/{name}",
        name=_name(name),
        summary=summary,
        description=description,
        answer=answer,
        access=RouteAccess("project", WRITES if writes else READS, whole_space=True),
        takes=(takes,),
        examples=EXAMPLES[name],
        gives=(gives,),
        parameters=(_PROJECT,),
        links=links or {},
    )


def _same_project(name: str) -> Schema:
    field = "queries" if name == "retrieve" else "docs"
    return {
        "operationId": _name(name),
        "parameters": {"project_id": "$request.path.project_id"},
        "requestBody": {field: "$request.body#/docs"},
    }


def _name(name: str) -> str:
    return f"project_memory_{name}"
