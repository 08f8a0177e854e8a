"""Files outside a space: its policy, and its anchor (the head of its audit log)."""

import json
import logging
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from pydantic import ValidationError

from treering.core.audit import Anchor
from treering.core.errors import Corrupt, Denied, InvalidInput, NotFound, Unavailable
from treering.core.objects import invalid_fields
from treering.core.patch import Author
from treering.core.policy import Policy
from treering.ports.ledger import AnchorStore, Ledger
from treering.sources.reading.bounded_files import parse_toml, read_text_file
from treering.system.address import MEMORY
from treering.system.machine import make_folder, replace_file

_LOG = logging.getLogger(__name__)

AnchorPlace = Path | str | Callable[[Anchor], None]
_MAX_ANCHOR_BYTES = 10_000
_MAX_POLICY_BYTES = 200_000


def anchor_at(place: AnchorPlace | None) -> AnchorStore | None:
    """Return the store of the audit log's head: a file, or a function of the caller."""
    if not place:
        return None
    return CallbackAnchor(place) if callable(place) else FileAnchor(Path(place))


class FileAnchor:
    """A small file, best on another disk or in a place that is backed up. Replaced atomically."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def read(self) -> Anchor | None:
        """Return the stored head. Raises `Corrupt` if the file is not an anchor."""
        try:
            return Anchor.model_validate_json(read_text_file(self._path, max_bytes=_MAX_ANCHOR_BYTES))
        except FileNotFoundError:
            return None
        except (OSError, InvalidInput, ValidationError) as error:
            raise Corrupt(
                f"The anchor {self._path} cannot be read.",
                hint="Restore it from a backup, or delete it to start a new anchor.",
            ) from error

    def write(self, anchor: Anchor) -> None:
        """Store a head. A new file is readable only by its owner; an existing one keeps its mode."""
        try:
            make_folder(self._path.parent)
            replace_file(self._path, json.dumps(anchor.model_dump()).encode())
        except OSError as error:
            raise Unavailable(
                f"The anchor {self._path} cannot be written: {error.strerror}.",
                hint="The commit itself is durable; make the anchor writable.",
            ) from error


class CallbackAnchor:
    """Passes each new head to a function of the caller."""

    def __init__(self, tell: Callable[[Anchor], None]) -> None:
        self._tell = tell

    def read(self) -> Anchor | None:
        """Return nothing: the caller compares."""
        return None

    def write(self, anchor: Anchor) -> None:
        """Call the function."""
        self._tell(anchor)


@dataclass(frozen=True, slots=True)
class PolicyFile:
    """A policy and the name of its file."""

    name: str
    policy: Policy


def policy_file(path: str, named: Path | None) -> PolicyFile | None:
    """Read the named policy, which must exist, or the one next to the space, which need not."""
    if named:
        policy = read_policy(named)
        if policy is None:
            raise NotFound(
                f"The policy file {named} does not exist.",
                hint="Correct the path, or omit it to use the policy stored in the space.",
            )
        return PolicyFile(named.name, policy)
    beside = Path(path).with_suffix(".policy.toml")
    policy = None if path == MEMORY else read_policy(beside)
    return PolicyFile(beside.name, policy) if policy else None


def put_in_force(given: PolicyFile, ledger: Ledger, by: Author) -> None:
    """Apply the policy of a file if the space has another one. Only a person may loosen a policy."""
    if ledger.policy == given.policy:
        return
    name = given.name.encode(errors="replace").decode()  # a file's name may not be text
    try:
        ledger.change_policy(given.policy, by=by, reason=f"Read from the policy file {name}.")
    except Denied as error:
        _LOG.warning("%s is not in force: %s %s", given.name, error.message, error.hint)


def read_policy(path: Path) -> Policy | None:
    """Read a policy (TOML, the fields of `core.policy.Policy`); `None` if the file does not exist.

    Raises `InvalidInput` naming the file and each wrong field.
    """
    try:
        return Policy.model_validate(parse_toml(read_text_file(path, max_bytes=_MAX_POLICY_BYTES)))
    except FileNotFoundError:
        return None
    except ValidationError as error:
        problem = invalid_fields(error, model=Policy)
        raise InvalidInput(f"{path}: {problem.message}", hint=problem.hint, details=problem.details) from error
    except (OSError, ValueError) as error:
        raise InvalidInput(f"{path} cannot be read as TOML: {error}.", hint="Correct the file or delete it.") from error
