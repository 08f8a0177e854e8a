"""Everything that can be plugged in, by name. Each kind has one table with the built-in entries and those of packages.

A package adds an entry to a table with an entry point in the table's group, such as `treering.ledgers`. An entry is
a location, `module:name`, which is imported at its first use. This module imports nothing from Treering, so that its
users do not depend on the entries.
"""

import sys
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from importlib import import_module
from importlib.machinery import PathFinder
from pathlib import Path
from typing import Any, Generic, TypeVar, cast

_Thing = TypeVar("_Thing")


@dataclass(frozen=True, slots=True)
class Place(Generic[_Thing]):
    """A location: `module:name`."""

    place: str

    def load(self) -> _Thing:
        """Import it. Raises `ModuleNotFoundError` if a package is missing."""
        return cast("_Thing", load(self.place))


class LazyPlaces(Mapping[str, _Thing]):
    """Things by name, each imported when it is first used."""

    def __init__(self, places: Mapping[str, str]) -> None:
        """Say where each is, as `module:name`."""
        self._places = places

    def __getitem__(self, name: str) -> _Thing:
        return cast("_Thing", load(self._places[name]))

    def __contains__(self, name: object) -> bool:
        # Whether a thing is there is told without loading it.
        return name in self._places

    def __iter__(self) -> Iterator[str]:
        return iter(self._places)

    def __len__(self) -> int:
        return len(self._places)


class Table(Mapping[str, _Thing]):
    """Things by name: the built-in ones, then those of installed packages, which cannot replace a built-in one."""

    def __init__(self, group: str, built_in: Mapping[str, _Thing | Place[_Thing]]) -> None:
        """Name the group of entry points, and what comes with Treering; a `Place` is loaded when it is asked for."""
        self.group = group
        self.built_in: dict[str, _Thing | Place[_Thing]] = dict(built_in)

    def __getitem__(self, name: str) -> _Thing:
        found = self.built_in[name] if name in self.built_in else self._installed[name]
        return found.load() if isinstance(found, Place) else found

    def __contains__(self, name: object) -> bool:
        # Whether a thing is there is told without loading it.
        return name in self.built_in or name in self._installed

    def __iter__(self) -> Iterator[str]:
        yield from self.built_in
        yield from (name for name in self._installed if name not in self.built_in)

    def __len__(self) -> int:
        return sum(1 for _ in self)

    @cached_property
    def _installed(self) -> dict[str, Place[_Thing]]:
        if not _may_be_installed(self.group):
            return {}
        # Imported here: it is slow to load, and reads what every package says of itself.
        from importlib.metadata import entry_points

        return {point.name: Place(point.value) for point in sorted(entry_points(group=self.group))}


def _may_be_installed(group: str) -> bool:
    """Tell whether a package may add to a group of entry points.

    In folders the files about packages are searched, in a fraction of the time that `importlib.metadata` takes: most
    people have no package that adds to Treering. Archives, and finders of other kinds, may always have one.
    """
    other_finders = (hasattr(one, "find_distributions") for one in sys.meta_path if one is not PathFinder)
    return any(other_finders) or any(_may_name(Path(folder), f"[{group}]".encode()) for folder in sys.path)


def _may_name(folder: Path, group: bytes) -> bool:
    """Tell whether a package of a folder names a group of entry points."""
    try:
        about = [one for one in folder.iterdir() if one.name.lower().endswith(("dist-info", "egg-info"))]
    except FileNotFoundError:
        return False
    except OSError:
        return True
    for package in about:
        with suppress(FileNotFoundError, NotADirectoryError):
            if group in (package / "entry_points.txt").read_bytes():
                return True
    return False


def load(place: str) -> Any:
    """Return what is at `module:name`."""
    module, _, name = place.partition(":")
    return getattr(import_module(module), name)


@dataclass(frozen=True, slots=True)
class Part:
    """A feature with its own name, such as discussions, and its additions to each surface.

    All fields except the name are locations, `module:name`; empty if the part adds nothing there.
    """

    name: str
    needs: tuple[str, ...] = ()
    """Parts without which it does nothing: where one of them is not there, it is not there either."""
    commands: tuple[str, ...] = ()
    """Functions that add commands to the command line. Their modules load nothing heavy."""
    operations: str = ""
    """A tuple of operations on a space, for Python and the command line."""
    spaces: str = ""
    """A function from a place, empty for the usual one, and settings to further spaces (`surfaces.http.served`)."""
    serving: str = ""
    """A function from a server's context, and what its flags chose, to what it serves (`surfaces.http.served`)."""
    serving_flags: str = ""
    """A group of flags of `treering serve`, whose method `chosen(settings)` gives what `serving` is told of them."""
    pages: str = ""
    """A tuple of pages of the web page (`surfaces.web.view.WebPage`)."""
    node_types: str = ""
    """A tuple of types of workflow nodes (`parts.workflows.registry.NodeType`)."""
    lint_rules: str = ""
    """A tuple of lint rules (`verbs.lint.survey.LintRule`)."""
    making: str = ""
    """A function from flags of the command line to how memories of discussions are made (`MakingPlan`)."""
    tending: str = ""
    """A function called with a space after the vectors that waited in it were made."""
    replaced_turns: str = ""
    """A function from an engine and turns of conversations to the turns that replaced them
    (`verbs.replaced_turns.FindReplaced`)."""
    own_files: str = ""
    """What recognises files that the part wrote itself (`ports.adapter.OwnFiles`): nothing is evidence of itself."""
    help: str = ""
    """Examples of its commands, and the groups of the help that they stand in (`surfaces.cli.help.CommandHelp`)."""


PARTS: Table[Part] = Table(
    "treering.parts",
    {
        "projects": Part(
            "projects",
            commands=("treering.parts.projects.commands:add_supervising",),
            help="treering.parts.projects.commands:HELP",
            spaces="treering.parts.projects.spaces:spaces_at",
            serving="treering.parts.projects.routes:serve_projects",
            serving_flags="treering.parts.projects.commands:ProjectFlags",
        ),
        "discussions": Part(
            "discussions",
            needs=("statements",),
            commands=("treering.parts.discussions.commands:add_discussions",),
            help="treering.parts.discussions.commands:HELP",
            operations="treering.parts.discussions.folder:OPERATIONS",
            pages="treering.parts.discussions.web:PAGES",
            serving="treering.parts.discussions.chat.endpoint:serve_chats",
            serving_flags="treering.parts.discussions.commands:ChatFlags",
        ),
        "statements": Part("statements", replaced_turns="treering.parts.statements.conversations:replaced_turns"),
        "client": Part("client", needs=("statements",)),
        "wiki": Part(
            "wiki",
            needs=("client",),
            commands=(
                "treering.parts.wiki.commands:add_wiki",
                "treering.parts.wiki.commands:add_mongodb",
            ),
            help="treering.parts.wiki.commands:HELP",
            operations="treering.parts.wiki.operations:OPERATIONS",
            pages="treering.parts.wiki.web:PAGES",
            own_files="treering.parts.wiki.own_pages:OWN_FILES",
        ),
        "workflows": Part(
            "workflows",
            needs=("discussions",),
            commands=("treering.parts.workflows.commands:add_workflows",),
            help="treering.parts.workflows.commands:HELP",
            making="treering.parts.workflows.endpoints:plan_of",
        ),
        "checks": Part(
            "checks",
            commands=("treering.parts.checks.commands:add_checking",),
            help="treering.parts.checks.commands:HELP",
        ),
        "exams": Part(
            "exams",
            commands=("treering.parts.exams.commands:add_exams",),
            help="treering.parts.exams.commands:HELP",
            pages="treering.parts.exams.web:PAGES",
        ),
        "coding_agents": Part(
            "coding_agents",
            commands=("treering.parts.coding_agents.commands:add_connecting",),
            help="treering.parts.coding_agents.commands:HELP",
        ),
    },
)
"""The parts, by name. A package adds one by an entry point that names a `Part`."""


def parts() -> tuple[Part, ...]:
    """Return the parts whose needs are there, the built-in ones first.

    One of another package that cannot be loaded is logged and left out.
    """
    found = dict(_loaded())
    while lacking := [name for name, part in found.items() if not all(need in found for need in part.needs)]:
        for name in lacking:
            del found[name]
    return tuple(found.values())


def _loaded() -> Iterator[tuple[str, Part]]:
    for name in PARTS:
        try:
            part = PARTS[name]
        except Exception as error:  # importing a package may raise anything
            if name in PARTS.built_in:
                raise
            leave_out(f"The part {name} cannot be used: {str(error).rstrip('.')}.")
        else:
            yield name, part


def brought(what: str) -> Iterator[Any]:
    """Load the additions of all parts for one field of `Part`, such as `making`."""
    for part in parts():
        place = getattr(part, what)
        if place:
            yield load(place)


def brought_by_name(what: str, name_of: Callable[[Any], str], taken: Collection[str] = ()) -> Iterator[Any]:
    """Load each thing of the tuples that parts bring under a field of `Part`, such as `pages`.

    One whose name is taken, by `taken` or by a part before, is logged and left out.
    """
    known = set(taken)
    for part in parts():
        for one in load(getattr(part, what)) if getattr(part, what) else ():
            name = name_of(one)
            if name in known:
                leave_out(f"{name!r} of {what} of the part {part.name} is ignored: that name is already taken.")
                continue
            known.add(name)
            yield one


def leave_out(why: str) -> None:
    """Log why something that a part brings is not used."""
    # Imported here: most processes have nothing to log.
    import logging

    logging.getLogger(__name__).warning(why)
