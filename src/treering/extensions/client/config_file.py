"""Configurations of memory clients in YAML files with `defaults`, as Hydra composes them, read without Hydra."""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from treering.core.errors import InvalidInput, NotFound
from treering.extensions.client.config import MemoryConfig
from treering.extensions.documents.bounded_yaml import read_data_file

_SELF = "_self_"
_DEEPEST = 10
_NAME = re.compile(r"[^/\\\0]+")


def read_memory_config(path: Path | str) -> MemoryConfig:
    """Read a configuration from a YAML file, with or without `memory:` around it.

    `defaults` lists files in the same folder, whose keys it overrides; `_self_` is the file itself. Raises `NotFound`
    if the file does not exist, and `InvalidInput` if it is not valid YAML or contains an unknown key.
    """
    return MemoryConfig.read(_read(Path(path), {}, depth=0))


def _read(path: Path, read: dict[Path, dict[str, Any]], *, depth: int) -> dict[str, Any]:
    """Return a configuration with its defaults; `read` caches the files read so far."""
    if path in read:
        return read[path]
    if depth > _DEEPEST:
        raise InvalidInput(f"{path} includes itself in its defaults.", hint="Correct the `defaults` lists.")
    data = _mapping(path)
    named = data.pop("defaults", [])
    own = data["memory"] if set(data) == {"memory"} and isinstance(data["memory"], Mapping) else data
    if not isinstance(named, list) or not all(isinstance(name, str) and _NAME.fullmatch(name) for name in named):
        raise InvalidInput(
            f"{path}: `defaults` is not a list of names.", hint="Use, for example: defaults: [default, _self_]."
        )
    whole: dict[str, Any] = {}
    for name in named if _SELF in named else [*named, _SELF]:
        part = own if name == _SELF else _read(path.with_name(f"{name}.yaml"), read, depth=depth + 1)
        whole = _merged(whole, part)
    read[path] = whole
    return whole


def _mapping(path: Path) -> dict[str, Any]:
    try:
        data = read_data_file(path)
    except FileNotFoundError as error:
        raise NotFound(f"The configuration {path} does not exist.", hint="Correct the path.") from error
    if not isinstance(data, dict):
        raise InvalidInput(f"{path} is not an object of keys.", hint="Write KEY: VALUE on each line.")
    return data


def _merged(base: Mapping[str, Any], over: Mapping[str, Any]) -> dict[str, Any]:
    """Merge nested mappings; values of `over` take precedence."""
    both = {
        key: _merged(base[key], value) if isinstance(value, Mapping) and isinstance(base.get(key), Mapping) else value
        for key, value in over.items()
    }
    return {**base, **both}
