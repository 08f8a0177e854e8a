"""The one reader of the environment."""

import getpass
import os
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

from treering.core.errors import InvalidInput
from treering.system.address import Address, file_address, parse_address
from treering.system.repository_place import GitPlace, repository_at
from treering.system.space_place import check_space_place, check_work_tree

if TYPE_CHECKING:
    from treering.retrieval.text.time_zones import TimeZone

FOLDER = ".treering"
FILE = "treering.db"
IN_GIT = "treering"
"""The folder of a space inside a git folder, of a repository that has no main work tree: bare, or a submodule."""
COMMON_KEY = "OPENAI_API_KEY"
_MINUTES = re.compile(r"\d{1,5}(\.\d{1,5})?")
_FALSE = {"0", "false", "no", "off"}
_NAME, _READ = "name", "read"
_OF_GIT = ("GIT_DIR", "GIT_COMMON_DIR", "GIT_WORK_TREE")


@dataclass(frozen=True, slots=True)
class SpaceChoice:
    """The space to use, and the reason."""

    address: Address
    why: str


def _variable(name: str, default: Any, read: Callable[[str], Any] = str, *, secret: bool = False) -> Any:
    """Return a field that `read` parses from an environment variable. A secret one may contain a password."""
    return field(default=default, repr=not secret, metadata={_NAME: name, _READ: read})


def _is_on(text: str) -> bool:
    return text.casefold() not in _FALSE


def _threads(text: str) -> int:
    if not text.isdigit() or not 1 <= int(text) <= 64:
        raise InvalidInput(
            f"TREERING_THREADS must be a number from 1 to 64, not {text!r}.", hint="Correct or unset it."
        )
    return int(text)


def _minutes(text: str) -> float:
    if not _MINUTES.fullmatch(text):
        raise InvalidInput(
            f"TREERING_RESIDENT_MINUTES must be a number, not {text!r}.", hint="Use a number such as 10 or 0.5."
        )
    return float(text)


def _hook_names(text: str) -> frozenset[str]:
    return frozenset(re.findall(r"[a-z]+", text))


def _zone_name(text: str) -> str:
    from treering.retrieval.text.time_zones import parse_zone

    name = text.strip()
    try:
        parse_zone(name)
    except InvalidInput as error:
        raise InvalidInput(f"TREERING_TIMEZONE: {error.message}", hint=error.hint) from error
    return name


@dataclass(frozen=True, slots=True)
class Settings:
    """Settings from the environment: `TREERING_…` and `MEMORY_…` variables, all optional."""

    space: str = _variable("TREERING_SPACE", "", secret=True)
    """`TREERING_SPACE`: the default space."""
    data_dir: Path = field(default_factory=Path)
    """`TREERING_DATA_DIR`: the folder of named spaces and of files prepared for spaces."""
    actor: str = "user"
    """`TREERING_ACTOR`: the author; default the login name."""
    keys: str = _variable("TREERING_KEYS", "", secret=True)
    """`TREERING_KEYS`: the location of access keys; default the space's database, or `keys.db` in the data folder."""
    anchor: str = _variable("TREERING_ANCHOR", "")
    """`TREERING_ANCHOR`: a file outside the space for the head of its audit log."""
    policy: str = _variable("TREERING_POLICY", "")
    """`TREERING_POLICY`: the policy file to open with; default `<space>.policy.toml` next to the space."""
    background: bool = _variable("TREERING_BACKGROUND", True, _is_on)
    """`TREERING_BACKGROUND=0`: do not embed in the background; use `treering vectors` instead."""
    resident: str = _variable("TREERING_RESIDENT", "")
    """`TREERING_RESIDENT=0`: no resident process for later commands; `1`: also one in a checkout and in CI."""
    resident_minutes: float = _variable("TREERING_RESIDENT_MINUTES", 10.0, _minutes)
    """`TREERING_RESIDENT_MINUTES`: minutes until that process ends without commands; default 10."""
    underscore_names: bool = _variable("TREERING_MCP_UNDERSCORE", False, _is_on)
    """`TREERING_MCP_UNDERSCORE=1`: name MCP tools `wiki_query`, for clients that refuse a dot."""
    threads: int = _variable("TREERING_THREADS", 1, _threads)
    """`TREERING_THREADS`: texts to embed in parallel."""
    read_ahead: bool = _variable("TREERING_READ_AHEAD", True, _is_on)
    """`TREERING_READ_AHEAD=0`: do not read many files in a child process, which uses a second core."""
    embedder: str = _variable("TREERING_EMBEDDER", "")
    """`TREERING_EMBEDDER`: `bge-small-en-v1.5` (the default), `static`, `onnx:FOLDER`, PROVIDER:MODEL (such as
    `ollama:nomic-embed-text`, `sentence-transformers:all-MiniLM-L6-v2`), or a name that a package gives an embedder."""
    embedder_url: str = _variable("TREERING_EMBEDDER_URL", "")
    """`TREERING_EMBEDDER_URL`: the OpenAI-compatible endpoint of the model; default the provider's own."""
    quick: bool = _variable("TREERING_QUICK", True, _is_on)
    """`TREERING_QUICK=0`: do not use vectors of the quick model for texts that are not embedded yet."""
    reranker: str = _variable("TREERING_RERANKER", "")
    """`TREERING_RERANKER`: the reranker for `options.rerank`, as `onnx:FOLDER`; default none."""
    upstream: str = _variable("TREERING_UPSTREAM", "")
    """`TREERING_UPSTREAM`: the base URL of the API that answers chats for `treering serve`."""
    wiki_model: str = _variable("TREERING_WIKI_MODEL", "")
    """`TREERING_WIKI_MODEL`: the chat model of agents that write wikis, as LangChain names it; default none."""
    memory_save_dir: str = _variable("MEMORY_SAVE_DIR", "")
    """`MEMORY_SAVE_DIR`: the folder of projects; default `projects` in the data folder."""
    memory_llm_model: str = _variable("MEMORY_LLM_MODEL", "")
    """`MEMORY_LLM_MODEL`: the language model of `treering.project_memory` and of served projects."""
    memory_llm_base_url: str = _variable("MEMORY_LLM_BASE_URL", "")
    """`MEMORY_LLM_BASE_URL`: its OpenAI-compatible endpoint; default the provider's own."""
    memory_embedding_model: str = _variable("MEMORY_EMBEDDING_MODEL", "")
    """`MEMORY_EMBEDDING_MODEL`: their embedding model; default the built-in one, which needs no network."""
    memory_embedding_base_url: str = _variable("MEMORY_EMBEDDING_BASE_URL", "")
    """`MEMORY_EMBEDDING_BASE_URL`: its OpenAI-compatible endpoint; default the provider's own."""
    timezone: str = _variable("TREERING_TIMEZONE", "", _zone_name)
    """`TREERING_TIMEZONE`: the time zone of "yesterday" and `since`, such as `Europe/Berlin` or `+05:30`; default
    the machine's own."""
    wiki_memory: str = _variable("TREERING_WIKI_MEMORY", "", secret=True)
    """`TREERING_WIKI_MEMORY`: the store of wiki agents' memories: a space, or `mongodb://…`; default the space."""
    hooks_off: frozenset[str] = _variable("TREERING_HOOKS_OFF", frozenset(), _hook_names)
    """`TREERING_HOOKS_OFF`: disabled hooks of coding agents: `begin`, `keep`, `edit`, `prompt`, `failure`."""
    hook_sync: bool = _variable("TREERING_HOOK_SYNC", True, _is_on)
    """`TREERING_HOOK_SYNC=0`: git hooks never sync memory, even if installed with --sync."""
    trust: bool = _variable("TREERING_TRUST", False, _is_on)
    """`TREERING_TRUST=1`: open a space that came with the repository (git tracks its `.treering/`); as `--trust`."""
    check_fail_on: str = _variable("TREERING_CHECK_FAIL_ON", "")
    """`TREERING_CHECK_FAIL_ON`: rules for which `treering check` exits with 1, such as `stale-decision,contested`."""
    folder: Path = field(default_factory=Path)
    """The working folder."""
    of_git: Mapping[str, str] = field(default_factory=dict)
    """`GIT_DIR`, `GIT_COMMON_DIR`, `GIT_WORK_TREE`: the repository, where git itself has named it."""

    @classmethod
    def read(cls, environment: Mapping[str, str] | None = None, *, folder: Path | None = None) -> "Settings":
        """Read the environment. Raises `InvalidInput` for a value that makes no sense."""
        given = os.environ if environment is None else environment
        variables = {one.name: one.metadata for one in fields(cls) if given.get(one.metadata.get(_NAME, ""))}
        return cls(
            **{name: variable[_READ](given[variable[_NAME]]) for name, variable in variables.items()},
            data_dir=_data_dir(given),
            actor=given.get("TREERING_ACTOR", "") or login_name(),
            folder=folder or Path.cwd(),
            of_git={name: given[name] for name in _OF_GIT if given.get(name)},
        )

    @property
    def time_zone(self) -> "TimeZone":
        """The time zone for days in questions."""
        # Imported here, because the hooks of coding agents must start quickly.
        from treering.retrieval.text.time_zones import parse_zone

        return parse_zone(self.timezone)

    @property
    def projects_dir(self) -> Path:
        """The folder of the projects' spaces, unless another one is named."""
        return Path(self.memory_save_dir) if self.memory_save_dir else self.data_dir / "projects"

    @property
    def own_space(self) -> Address:
        """The space of the working folder itself, independent of the folders above."""
        return _checked(self.folder / FOLDER / FILE, self.folder)

    @property
    def new_space(self) -> Address:
        """The space that `init` creates: that of the repository, or of the folder if it is in none."""
        place = self.repository
        if place is None:
            return self.own_space
        return next(self._within(place), None) or self._of_repository(place)

    @property
    def repository(self) -> GitPlace | None:
        """The git repository that contains the working folder; `None` if there is none."""
        return repository_at(self.folder, self.of_git)

    def space_address(self, given: str | Address | None = None) -> Address:
        """Return the address of the space to use: a given one, else as `space_choice` finds it."""
        return given if isinstance(given, Address) else self.space_choice(given).address

    def space_choice(self, given: str | None = None) -> SpaceChoice:
        """Return the space to use: the given one, `TREERING_SPACE`, or the space of the folder.

        A bare name is a named space under the data folder. The space of a folder is the nearest `.treering/` in its
        work tree, else the space shared by all work trees of its repository, else the nearest above. If none exists,
        returns the address at which it would be created. Raises `InvalidInput` if the text is not an address or the
        folder leads to a space of another user (see `space_place`).
        """
        if text := given or self.space:
            why = "--space names it" if given else "TREERING_SPACE names it"
            return SpaceChoice(parse_address(text, named=self.data_dir), why)
        place = self.repository
        for address in self._within(place) if place else ():
            return SpaceChoice(address, f"the nearest {FOLDER} folder of this work tree")
        shared = self._of_repository(place) if place else None
        if place and shared and _is_there(shared):
            return SpaceChoice(shared, f"all work trees of the repository {place.common} share it")
        for folder in (self.folder, *self.folder.parents):
            if _is_there(file_address(file := folder / FOLDER / FILE)):
                return SpaceChoice(_checked(file, folder), f"the nearest {FOLDER} folder above")
        if place and shared:
            made = f"the one to be made for the repository {place.common}: there is none yet"
            return SpaceChoice(shared, made)
        return SpaceChoice(self.own_space, "the one to be made for this folder: there is none yet")

    def keys_address(self, given: str | None, *, space: Address) -> Address:
        """Return the location of a server's access keys: the given one, `TREERING_KEYS`, or the default.

        Servers that share a database share its keys; otherwise they are in `keys.db` in the data folder. Raises
        `InvalidInput` if the text is not an address.
        """
        text = given or self.keys
        if text:
            return parse_address(text, named=self.data_dir)
        return file_address(self.data_dir / "keys.db") if space.is_file else space

    def _within(self, place: GitPlace) -> Iterator[Address]:
        """Yield the spaces of the folders from the working folder up to the top of its work tree, the nearest first."""
        folder = self.folder.resolve()
        if place.top is None or not folder.is_relative_to(place.top):
            return
        for one in (folder, *folder.parents):
            if _is_there(file_address(file := one / FOLDER / FILE)):
                main = place.main_top if place.names_back else None
                yield _checked(file, place.top, *([main] if main else []))
            if one == place.top:
                return

    def _of_repository(self, place: GitPlace) -> Address:
        if "GIT_DIR" not in self.of_git:
            check_work_tree(place)
        if main := place.main_top:
            return _checked(main / FOLDER / FILE, main)
        return _checked(place.common / IN_GIT / FILE, place.common)


def _checked(file: Path, *roots: Path) -> Address:
    """Return the address of a space that was found by its place. Raises `InvalidInput` if it may not be used."""
    check_space_place(file, *roots)
    return file_address(file)


def _is_there(address: Address) -> bool:
    return address.file is not None and address.file.is_file()


def read_key(name: str) -> str:
    """Read the key of a language model from a variable chosen by the user; empty if the common one is not set.

    Raises `InvalidInput` if another variable is not set.
    """
    key = os.environ.get(name or COMMON_KEY, "")
    if name and not key:
        raise InvalidInput(
            f"The environment variable {name} is not set; the model reads its key from it.",
            hint=f"Set the environment variable {name}.",
        )
    return key


def data_folder() -> Path:
    """Return the data folder of this user, as an absolute path. Raises `InvalidInput` for a user without a home."""
    return _data_dir(os.environ).absolute()


def _data_dir(environment: Mapping[str, str]) -> Path:
    if named := environment.get("TREERING_DATA_DIR", ""):
        return Path(named)
    if base := environment.get("XDG_DATA_HOME", ""):
        return Path(base) / "treering"
    try:
        return Path.home() / ".local" / "share" / "treering"
    except RuntimeError as error:
        raise InvalidInput(
            "This user has no home folder, so there is no place for data.",
            hint="Set TREERING_DATA_DIR to a folder that this user can write to.",
        ) from error


def login_name() -> str:
    """Return the name of the user of this process; "user" if it has none, as in some containers and services."""
    try:
        return getpass.getuser()
    except (ImportError, KeyError, OSError):  # the first is Windows', before Python 3.13
        return "user"
