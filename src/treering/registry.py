"""Extension points by name: one table per kind, with the built-in entries and the entries of installed packages.

A package adds an entry to a table with an entry point in the table's group, such as `treering.ledgers`. An entry is
a location, `module:name`, which is imported at its first use. This module imports nothing from Treering, so that its
users do not depend on the entries.
"""

import sys
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cache, cached_property
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
    """Objects by name, each imported on first use."""

    def __init__(self, places: Mapping[str, str]) -> None:
        """Create the mapping from locations, `module:name`, by name."""
        self._places = places

    def __getitem__(self, name: str) -> _Thing:
        return cast("_Thing", load(self._places[name]))

    def __contains__(self, name: object) -> bool:
        # Without loading it.
        return name in self._places

    def __iter__(self) -> Iterator[str]:
        return iter(self._places)

    def __len__(self) -> int:
        return len(self._places)


class Table(Mapping[str, _Thing]):
    """Objects by name: built-in ones, then objects of installed packages, which cannot replace built-in ones."""

    def __init__(
        self, group: str, built_in: Callable[[], Mapping[str, "_Thing | Place[_Thing]"]] | None = None
    ) -> None:
        """Name the group of entry points.

        `built_in` returns the entries that come with Treering, by default those that its extensions name in their field
        of the group's name.
        """
        self.group = group
        self._own = built_in

    @cached_property
    def built_in(self) -> dict[str, _Thing | Place[_Thing]]:
        """The entries that come with Treering; a `Place` is imported at its first use."""
        return dict(self._own()) if self._own else dict(places_of_extensions(self.group))

    def __getitem__(self, name: str) -> _Thing:
        thing = self.built_in[name] if name in self.built_in else self._installed[name]
        return thing.load() if isinstance(thing, Place) else thing

    def __contains__(self, name: object) -> bool:
        # Without loading it.
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
        # Imported here, because it is slow and reads the metadata of every package.
        from importlib.metadata import entry_points

        return {point.name: Place(point.value) for point in sorted(entry_points(group=self.group))}


def places_of_extensions(group: str) -> Iterator[tuple[str, Place[Any]]]:
    """Yield the entries of the built-in extensions for a group of entry points, by name."""
    for extension in built_in_extensions().values():
        for name, place in getattr(extension, group.removeprefix("treering.")).items():
            yield name, Place(place)


def _may_be_installed(group: str) -> bool:
    """Return whether an installed package may have entry points in a group.

    Searching the metadata files in folders takes a fraction of the time of `importlib.metadata`, and most people have
    no such package. Archives and other finders always count as possible.
    """
    other_finders = (hasattr(one, "find_distributions") for one in sys.meta_path if one is not PathFinder)
    return any(other_finders) or any(_may_name(Path(folder), f"[{group}]".encode()) for folder in sys.path)


def _may_name(folder: Path, group: bytes) -> bool:
    """Return whether a package in a folder has entry points in a group."""
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
    """Import and return `module:name`."""
    module, _, name = place.partition(":")
    return getattr(import_module(module), name)


@dataclass(frozen=True, slots=True)
class Extension:
    """A feature with its own name, such as discussions: its additions to each surface, and its plug-ins.

    All fields except the name and the mappings are locations, `module:name`; empty if the extension adds nothing there.
    """

    name: str
    needs: tuple[str, ...] = ()
    """Extensions that it requires. It is left out if one of them is missing."""
    commands: tuple[str, ...] = ()
    """Functions that add commands to the command line. Their modules import nothing heavy."""
    operations: str = ""
    """A tuple of operations on a space, for Python and the command line."""
    spaces: str = ""
    """A function from a place, empty for the default, and settings to further spaces (`extensions.server.served`)."""
    http_routes: str = ""
    """A function from a server's context and the values of `serve_flags` to routes (`extensions.server.served`)."""
    serve_flags: str = ""
    """A group of flags of `treering serve`; its method `chosen(settings)` returns the argument of `http_routes`."""
    pages: str = ""
    """A tuple of pages of the web page (`extensions.server.web.view.WebPage`)."""
    node_types: str = ""
    """A tuple of types of workflow nodes (`extensions.workflows.registry.NodeType`)."""
    lint_rules: str = ""
    """A tuple of lint rules (`verbs.lint.survey.LintRule`)."""
    memory_plan: str = ""
    """A function from flags of the command line to how memories of discussions are made (`MakingPlan`)."""
    on_vectors_ready: str = ""
    """A function called with a space after its pending texts were embedded."""
    replaced_turns: str = ""
    """A function from an engine and turns of conversations to the turns that replaced them
    (`verbs.replaced_turns.FindReplaced`)."""
    named_views: str = ""
    """A function from a call and a name to a view of it, such as of a person (`verbs.named_views.FindView`)."""
    on_erased: str = ""
    """A function called with an engine after content was erased, which drops its copies in memory."""
    erase_turns: str = ""
    """A function that erases turns of the extension's conversations (`verbs.lint.erasure.EraseTurns`)."""
    save_edits: str = ""
    """A function that preserves people's edits of texts made from objects to erase (`verbs.lint.erasure.SaveEdits`)."""
    own_files: str = ""
    """Recognizes files that the extension wrote itself (`ports.adapter.OwnFiles`), which are not evidence."""
    help: str = ""
    """Examples of its commands, and the groups of the help that list them (`surfaces.cli.help.CommandHelp`)."""
    file_statements: str = ""
    """A function from the path of a file, its text and its segments to the knowledge that it states
    (`sources.formats.FindStatements`)."""
    trees: str = ""
    """A function from file access to the branches and work trees of repositories (`ports.adapter.TreeLookup`)."""
    code_links: str = ""
    """Functions that find links between places in code (`verbs.query.code_links.CodeLinks`)."""
    vector_engines: str = ""
    """Opens the engine in use of a space (`ports.vector_engine.VectorMirrors`)."""
    named_embedders: str = ""
    """A function from a name that is not in `embedders`, and settings, to an embedder."""
    modes: Mapping[str, str] = field(default_factory=dict)
    """Modes of the four verbs (`verbs.envelope.Mode`): locations by verb and mode, such as `lint consolidate`."""
    ledgers: Mapping[str, str] = field(default_factory=dict)
    engines: Mapping[str, str] = field(default_factory=dict)
    embedders: Mapping[str, str] = field(default_factory=dict)
    rerankers: Mapping[str, str] = field(default_factory=dict)
    adapters: Mapping[str, str] = field(default_factory=dict)
    formats: Mapping[str, str] = field(default_factory=dict)
    """Entries for the tables of these names, as other packages add them by entry points: locations by name."""


_FORMER_FIELDS = {
    "serving": "http_routes",
    "serving_flags": "serve_flags",
    "making": "memory_plan",
    "tending": "on_vectors_ready",
}


def Part(name: str, **fields: Any) -> Extension:  # noqa: N802 - the name of the class before
    """Return an `Extension`. Deprecated: the former name, with the former names of its fields."""
    from warnings import warn

    warn("Part is deprecated: use Extension.", DeprecationWarning, stacklevel=2)
    return Extension(name, **{_FORMER_FIELDS.get(field, field): value for field, value in fields.items()})


@cache
def built_in_extensions() -> dict[str, Extension]:
    """Return the extensions that come with Treering, by name, without those whose folder or needs were deleted."""
    names = _unless_deleted("treering.extensions", "BUILT_IN") or ()
    found = {name: _unless_deleted(f"treering.extensions.{name}.extension", "EXTENSION") for name in names}
    return _with_needs({name: extension for name, extension in found.items() if extension})


def _unless_deleted(module: str, name: str) -> Any:
    """Import and return a name of a module; `None` if the module or a package above it was deleted."""
    try:
        return load(f"{module}:{name}")
    except ModuleNotFoundError as error:
        if error.name and f"{module}.".startswith(f"{error.name}."):
            return None
        raise  # the module is there, but imports one that is not


def _with_needs(found: Mapping[str, Extension]) -> dict[str, Extension]:
    """Return the extensions whose needs are among them."""
    complete = dict(found)
    while lacking := [name for name, part in complete.items() if not all(need in complete for need in part.needs)]:
        for name in lacking:
            del complete[name]
    return complete


EXTENSIONS: Table[Extension] = Table("treering.parts", built_in_extensions)
"""The extensions, by name. A package adds one by an entry point that names an `Extension`."""


def extensions() -> tuple[Extension, ...]:
    """Return the extensions whose needs are installed, the built-in ones first.

    One of another package that cannot be loaded is logged and left out.
    """
    return tuple(_with_needs(dict(_loaded())).values())


def _loaded() -> Iterator[tuple[str, Extension]]:
    for name in EXTENSIONS:
        try:
            part = EXTENSIONS[name]
        except Exception as error:  # importing a package may raise anything
            if name in EXTENSIONS.built_in:
                raise
            leave_out(f"The extension {name} cannot be used: {str(error).rstrip('.')}.")
        else:
            yield name, part


def brought(what: str) -> Iterator[Any]:
    """Load the additions of all extensions for one field of `Extension`, such as `memory_plan`."""
    for extension in extensions():
        place = getattr(extension, what)
        if place:
            yield load(place)


def brought_by_name(what: str, name_of: Callable[[Any], str], taken: Collection[str] = ()) -> Iterator[Any]:
    """Load the items of a field of all extensions, such as `pages`.

    An item whose name is in `taken` or was used by an earlier extension is logged and skipped.
    """
    known = set(taken)
    for extension in extensions():
        for one in load(getattr(extension, what)) if getattr(extension, what) else ():
            name = name_of(one)
            if name in known:
                leave_out(
                    f"{name!r} of {what} of the extension {extension.name} is ignored: that name is already taken."
                )
                continue
            known.add(name)
            yield one


def leave_out(why: str) -> None:
    """Log why an item of an extension is skipped."""
    # Imported here: most processes have nothing to log.
    import logging

    logging.getLogger(__name__).warning(why)
