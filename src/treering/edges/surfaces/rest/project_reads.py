"""The space of one project, for reading only."""

from collections.abc import Callable, Mapping
from typing import Any

from treering.core.scope import ROOT
from treering.edges.projects import ProjectSpaces
from treering.tools import catalog
from treering.tools.envelope import Answer, Envelope, Operation, Report
from treering.tools.rights import READS


class ProjectReads:
    """Reads the space of a project. Raises `UnknownProject` where nothing was ever kept for it."""

    scope = ROOT
    """A key of a project is one of its whole space."""

    def __init__(self, spaces: ProjectSpaces, project_id: str, *, check_stop: Callable[[], None]) -> None:
        self._spaces = spaces
        self._project_id = project_id
        self._check_stop = check_stop

    def check(self) -> bool:
        """Open the project's space, which is there if this returns."""
        self._check_stop()
        with self._spaces.engine(self._project_id, create=False):
            return True

    def call(self, verb: str, envelope: Envelope) -> Report:
        """Run a mode of a verb that only reads."""
        self._check_stop()
        with self._spaces.engine(self._project_id, create=False) as engine:
            return catalog.call(engine, verb, envelope, granted=READS)

    def perform(self, operation: Operation[Answer], *, given: Mapping[str, Any], options: Mapping[str, Any]) -> Answer:
        """Run an operation that only reads."""
        self._check_stop()
        with self._spaces.engine(self._project_id, create=False) as engine:
            return operation.perform(engine, given=given, options=options, granted=READS)

    def grants(self, operation: Operation[Any]) -> bool:
        """Tell whether an operation only reads."""
        return not operation.rights.beyond(READS)
