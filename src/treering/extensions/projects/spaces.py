"""The spaces of projects: files of one folder, or spaces of one database. A bounded number is open at once."""

import atexit
from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from functools import cache
from os import PathLike, fspath
from pathlib import Path
from threading import Lock
from types import TracebackType
from typing import Self, TypedDict, Unpack

from treering.core.errors import InvalidInput, NotFound, UnknownProject
from treering.core.evidence import Triple
from treering.core.objects import Channel
from treering.extensions.encoder.asking import Budget
from treering.extensions.encoder.language_model import LanguageModel
from treering.extensions.projects.answering import Answered, Recalled
from treering.extensions.projects.project import (
    DeleteReport,
    IndexReport,
    ProjectId,
    ProjectMemory,
    checked_project_id,
    is_project_id,
)
from treering.ports.models import Embedder
from treering.spaces.wiring import Opened, Opening, author, open_embedder, open_engine, start_waiting
from treering.system.address import SPACE, Address, file_address
from treering.system.settings import Settings
from treering.verbs.engine import Engine

MOST_OPEN = 32


def open_projects(
    folder: Path | str | Address | None = None,
    *,
    actor: str | None = None,
    channel: Channel = "agent",
    model: LanguageModel | None = None,
    background: bool | None = None,
    embedder: Embedder | None = None,
    most_open: int = MOST_OPEN,
) -> "Projects":
    """Open the projects of a folder; `treering.open_projects` is this function.

    `folder`: default: `MEMORY_SAVE_DIR`, else `projects` in the data folder (`TREERING_DATA_DIR`); each project is a
    separate space in it, `<project_id>.db`, with its own anchor if `TREERING_ANCHOR` is set. With an address
    `postgresql://USER@HOST/DATABASE?space=NAME`, each is the space `NAME/<project_id>` of that database. `actor` and
    `channel`: the author of writes and their channel. `model` answers `rag_qa` and reads indexed documents.
    `background`: whether to embed in the background. `most_open`: the maximum number of unused spaces to keep open.
    Raises `InvalidInput` for invalid settings.
    """
    settings = Settings.read()
    spaces = ProjectSpaces(
        projects_place(folder or settings.projects_dir, settings),
        settings=settings,
        actor=actor,
        channel=channel,
        background=background,
        embedder=embedder,
        most_open=most_open,
    )
    return Projects(spaces, model=model)


def projects_place(given: Path | str | Address, settings: Settings) -> Path | Address:
    """Parse the location of projects: a folder or an address. Raises `InvalidInput` for an invalid address."""
    if isinstance(given, str) and "://" in given:
        given = settings.space_address(given)
    return given if isinstance(given, Address) else Path(given)


def spaces_at(place: str, settings: Settings) -> "ProjectSpaces":
    """Return the projects at a location; empty: the configured one."""
    return ProjectSpaces(projects_place(place or settings.projects_dir, settings), settings=settings)


class ProjectSpaces:
    """Lends the engines of projects. Safe to use from many threads; opening one project holds up no other."""

    def __init__(
        self,
        place: Path | Address,
        *,
        settings: Settings | None = None,
        actor: str | None = None,
        channel: Channel = "agent",
        background: bool | None = None,
        embedder: Embedder | None = None,
        most_open: int = MOST_OPEN,
    ) -> None:
        self._place = place
        self._settings = settings or Settings.read()
        self._author = author(actor, channel, self._settings)
        self._background = self._settings.background if background is None else background
        # A model takes more memory than a space: one for all.
        self._embedder = embedder or open_embedder(self._settings)
        self._most_open = most_open
        self._spaces: OrderedDict[str, _Space] = OrderedDict()
        self._lock = Lock()
        self._closed = False

    @contextmanager
    def engine(self, project_id: str, *, create: bool = True) -> Iterator[Engine]:
        """Lend a project's engine. `create`: create the project if it does not exist.

        Raises `InvalidInput` for an invalid id and after `close`, `UnknownProject`, and the errors of opening a space.
        """
        space = self._take(checked_project_id(project_id))
        try:
            yield space.engine(lambda: self._open(project_id, create=create))
        finally:
            self._give_back(project_id, space)

    def ids(self) -> list[str]:
        """Return the ids of the projects whose spaces are in a folder, in order; of those in a database none."""
        if not isinstance(self._place, Path) or not self._place.is_dir():
            return []
        return sorted(file.stem for file in self._place.glob("*.db") if is_project_id(file.stem))

    def count_open(self) -> tuple[int, int]:
        """Return how many spaces are open, and how many of their texts wait for a vector."""
        with self._lock:
            opened = [name for name, space in self._spaces.items() if space.is_open]
        waiting = 0
        for name in opened:
            with suppress(UnknownProject), self.engine(name, create=False) as engine:
                waiting += engine.index.vectors.lag().pending
        return len(opened), waiting

    def look_after(self) -> None:
        """Start pending work in the open spaces, including work left by processes that died. Returns soon."""
        with self._lock:
            opened = [name for name, space in self._spaces.items() if space.is_open]
        for name in opened:
            with suppress(UnknownProject), self.engine(name, create=False) as engine:
                start_waiting(engine)

    def close(self) -> None:
        """Close all spaces; those in use as soon as they are given back."""
        with self._lock:
            self._closed = True
        self._close_idle()

    def _take(self, project_id: str) -> "_Space":
        with self._lock:
            if self._closed:
                raise InvalidInput("These projects are closed.", hint="Open them again: treering.open_projects().")
            space = self._spaces.setdefault(project_id, _Space())
            self._spaces.move_to_end(project_id)
            space.users += 1
            return space

    def _give_back(self, project_id: str, space: "_Space") -> None:
        with self._lock:
            space.users -= 1
            if not space.users and not space.is_open:
                del self._spaces[project_id]  # a space that could not be opened does not count
        self._close_idle()

    def _close_idle(self) -> None:
        """Close the least recently used spaces above the limit."""
        with self._lock:
            excess = len(self._spaces) - (0 if self._closed else self._most_open)
            idle = [name for name, space in self._spaces.items() if not space.users][: max(excess, 0)]
            closing = [self._spaces.pop(name) for name in idle]
        for space in closing:
            space.close()

    def _open(self, project_id: str, *, create: bool) -> Opened:
        anchor = self._settings.anchor
        opening = Opening(
            address=self.address(project_id),
            settings=self._settings,
            author=self._author,
            # One file holds one head: two projects would each find the other's.
            anchor=f"{anchor}.{project_id}" if anchor else None,
            create=create,
            background=self._background,
            embedder=self._embedder,
        )
        try:
            return open_engine(opening)
        except NotFound as error:
            raise UnknownProject(project_id) from error

    def address(self, project_id: str) -> Address:
        """Return the address of a project. Raises `InvalidInput` for an invalid id."""
        checked_project_id(project_id)
        if isinstance(self._place, Path):
            return file_address(self._place / f"{project_id}.db")
        options = dict(self._place.options)
        spaces = options.get(SPACE, "")
        if not spaces:
            raise InvalidInput(
                f"The address {self._place} does not contain a name for the projects.",
                hint=f"Add ?{SPACE}=NAME: each project is the space NAME/PROJECT_ID.",
            )
        return replace(self._place, options=tuple({**options, SPACE: f"{spaces}/{project_id}"}.items()))


class Projects(ProjectMemory):
    """The memory of the projects of one folder. A context manager."""

    def __init__(self, spaces: ProjectSpaces, *, model: LanguageModel | None = None) -> None:
        super().__init__(spaces.engine, model=model)
        self._close = spaces.close

    def close(self) -> None:
        """Close all projects. Writes are saved; pending texts are embedded when a project is next opened."""
        self._close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


class _Space:
    """One project's space, opened by the first who needs it. `users` is guarded by the lock of all spaces."""

    def __init__(self) -> None:
        self.users = 0
        self._lock = Lock()
        self._opened: Opened | None = None

    @property
    def is_open(self) -> bool:
        """Return whether it was opened."""
        return self._opened is not None

    def engine(self, opening: Callable[[], Opened]) -> Engine:
        with self._lock:
            self._opened = self._opened or opening()
            return self._opened.engine

    def close(self) -> None:
        if self._opened:
            self._opened.close()


# The models of project memory, by name: a language model that reads and answers, and an embedding model.


@dataclass(frozen=True, slots=True)
class ProjectModels:
    """The models of project memory; an empty name means no language model, or the built-in embedder.

    With a URL, a name is the name of a model at an OpenAI-compatible endpoint; otherwise it is `PROVIDER:MODEL`.
    """

    llm_model_name: str = ""
    llm_base_url: str = ""
    embedding_model_name: str = ""
    embedding_base_url: str = ""

    @classmethod
    def of(cls, settings: Settings) -> "ProjectModels":
        """Return those the environment names."""
        return cls(
            llm_model_name=settings.memory_llm_model,
            llm_base_url=settings.memory_llm_base_url,
            embedding_model_name=settings.memory_embedding_model,
            embedding_base_url=settings.memory_embedding_base_url,
        )

    def open_model(self) -> LanguageModel | None:
        """Open the language model, if one is named. Sends nothing until used. Raises the errors of `open_model`."""
        if not self.llm_model_name:
            return None
        from treering.extensions.encoder.language_models import open_model

        return open_model(_named(self.llm_model_name, self.llm_base_url), base_url=self.llm_base_url or None)

    def open_embedder(self) -> Embedder | None:
        """Open the embedding model, if one is named, and test it at once. Raises the errors of `open_embedder`."""
        if not self.embedding_model_name:
            return None
        from treering.extensions.encoder.embedders import open_embedder

        name = _named(self.embedding_model_name, self.embedding_base_url)
        return open_embedder(name, base_url=self.embedding_base_url or None)


def _named(name: str, base_url: str) -> str:
    """Return `PROVIDER:MODEL`; a plain name without a URL, such as `gpt-4o-mini`, is a model of OpenAI's."""
    return name if base_url or ":" in name else f"openai:{name}"


# Project memory as plain functions, for programs that name a project and a folder with every call.


Folder = str | PathLike[str]


class ModelNames(TypedDict, total=False):
    """The models that a call names, as `ProjectModels` has them; one that is `None` or missing is not named."""

    llm_model_name: str | None
    llm_base_url: str | None
    embedding_model_name: str | None
    embedding_base_url: str | None


def get_hipporag_kwargs() -> dict[str, str | None]:
    """Return the models of the environment as keyword arguments for these functions.

    `llm_model_name` (`MEMORY_LLM_MODEL`) and `embedding_model_name` (`MEMORY_EMBEDDING_MODEL`) are always present,
    `None` if not set; `llm_base_url` and `embedding_base_url` (`MEMORY_…_BASE_URL`) only if set.
    """
    found = ProjectModels.of(Settings.read())
    urls = {"llm_base_url": found.llm_base_url, "embedding_base_url": found.embedding_base_url}
    return {
        "llm_model_name": found.llm_model_name or None,
        "embedding_model_name": found.embedding_model_name or None,
        **{name: url for name, url in urls.items() if url},
    }


def index(
    project_id: ProjectId,
    docs: Sequence[str],
    base_save_dir: Folder | None = None,
    *,
    triples: Sequence[Sequence[Triple]] | None = None,
    wait: bool = False,
    budget: Budget | None = None,
    **models: Unpack[ModelNames],
) -> IndexReport:
    """Store documents in a project, as `Projects.index` does. A language model, if named, extracts their statements.

    `base_save_dir`: the folder of the projects; default `MEMORY_SAVE_DIR`. Raises `InvalidInput` without either, as all
    these functions do: nothing is stored in an unnamed folder.
    """
    memory = _memory(base_save_dir, models)
    return memory.index(project_id, docs, triples=triples, wait=wait, budget=budget)


def retrieve(
    project_id: ProjectId,
    queries: Sequence[str],
    base_save_dir: Folder | None = None,
    num_to_retrieve: int = 5,
    **models: Unpack[ModelNames],
) -> list[Recalled]:
    """Return for each query the documents that answer it best: `{"question", "docs", "doc_scores"}`, best first."""
    return _memory(base_save_dir, models).retrieve(project_id, queries, num_to_retrieve)


def delete(
    project_id: ProjectId,
    docs: Sequence[str],
    base_save_dir: Folder | None = None,
    *,
    erase: bool = False,
    **models: Unpack[ModelNames],
) -> DeleteReport:
    """Take documents out of a project by their exact text, as `Projects.delete` does."""
    return _memory(base_save_dir, models).delete(project_id, docs, erase=erase)


def rag_qa(
    project_id: ProjectId,
    queries: Sequence[str],
    base_save_dir: Folder | None = None,
    num_to_retrieve: int = 5,
    *,
    budget: Budget | None = None,
    **models: Unpack[ModelNames],
) -> list[Answered]:
    """Answer queries from the documents of a project, with citations, as `Projects.rag_qa` does.

    Raises `InvalidInput` if no language model is named.
    """
    return _memory(base_save_dir, models).rag_qa(project_id, queries, num_to_retrieve, budget=budget)


def _memory(folder: Folder | None, named: ModelNames) -> Projects:
    models = ProjectModels(**{name: str(given or "") for name, given in named.items()})
    named_folder = fspath(folder or "") or Settings.read().memory_save_dir
    if not named_folder:
        raise InvalidInput(
            "There is no folder for the projects: base_save_dir and MEMORY_SAVE_DIR are empty.",
            hint="Set base_save_dir or MEMORY_SAVE_DIR; without a folder, make no memory calls.",
        )
    return _opened(Path(named_folder).absolute(), models)


@cache
def _opened(folder: Path, models: ProjectModels) -> Projects:
    projects = open_projects(folder, model=models.open_model(), embedder=models.open_embedder())
    atexit.register(projects.close)
    return projects
