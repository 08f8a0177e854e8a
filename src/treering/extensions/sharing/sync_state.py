"""The state of a copy's syncs: a file that belongs to one audit log.

A file that names another log is not trusted: it came with a folder that another person made.
"""

from pathlib import Path
from typing import ClassVar
from uuid import uuid4

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from treering.core.audit import Anchor
from treering.extensions.sharing.bundles import VERSION, BundleNote
from treering.extensions.sharing.depots import Kind
from treering.sources.reading.folder import read_bytes
from treering.system.machine import replace_file

MAX_STATE_BYTES = 64 << 20
STATE = "state.json"
"""The name of the file."""


class LeftAtRemote(BaseModel):
    """The files of a copy at a remote: its bundles, the head of its log then, and the SHA-256 of its manifest."""

    model_config: ClassVar[ConfigDict] = ConfigDict(frozen=True)

    head: Anchor
    bundles: tuple[BundleNote, ...]
    manifest: str
    version: int = VERSION
    """The version of the manifest."""
    withholds: bool = False
    """Whether conversations with coding agents were withheld; earlier versions of Treering sent them."""


class SyncState(BaseModel):
    """The name of a copy, the name of its log, and per remote the bundles it has read and written."""

    replica: str = Field(default_factory=lambda: uuid4().hex, pattern="^[0-9a-f]{32}$")
    log: str = ""
    read: dict[str, list[str]] = {}
    """SHA-256 of the bundles that were merged."""
    left: dict[str, LeftAtRemote] = {}
    known: dict[str, list[str]] = {}
    """Places that could be read, in the order they were first read."""
    kinds: dict[str, Kind] = {}
    """The kind of each local remote when it was first used, by its path."""
    head: Anchor | None = None
    """The head of the log after the last sync."""
    passed_over: dict[str, list[str]] = {}
    """Places that could not be read or merged, or not all of it."""

    def take_new_name(self) -> None:
        """Leave the place of the current name to another copy that also uses it."""
        self.replica = uuid4().hex
        self.left = {}


def read_state(home: Path, log: str) -> SyncState:
    """Read the state of a log's syncs.

    Of another log, only the name of the copy and the kinds of remotes are taken over.
    """
    try:
        state = SyncState.model_validate_json(read_bytes(home / STATE, MAX_STATE_BYTES) or b"")
    except (OSError, ValidationError):
        return SyncState()
    return state if log and state.log == log else SyncState(replica=state.replica, kinds=state.kinds)


def write_state(home: Path, state: SyncState, log: str) -> None:
    """Remember the state, as one of this log."""
    replace_file(home / STATE, state.model_copy(update={"log": log}).model_dump_json().encode())
