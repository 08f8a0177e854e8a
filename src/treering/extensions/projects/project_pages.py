"""The space of one project, as its pages use it."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from treering.core.scope import ROOT
from treering.extensions.projects.spaces import ProjectSpaces
from treering.extensions.server.callers import Caller
from treering.verbs import catalog
from treering.verbs.engine import Engine
from treering.verbs.envelope import DECIDES, READS, Answer, Envelope, Operation, Report, require
from treering.verbs.feedback import FEEDBACK


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
