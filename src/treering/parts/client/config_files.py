"""Configurations of the memory client in YAML files, as Hydra lays them out, read without Hydra."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

from treering.core.errors import InvalidInput, NotFound
from treering.parts.client.config import MemoryConfig

_SELF = "_self_"
_DEEPEST = 10


def read_memory_config(path: Path | str) -> MemoryConfig:
    """Read a configuration from a YAML file, with or without `memory:` around it.

    `defaults` names files beside it, whose keys it changes; `_self_` stands for its own. Raises `NotFound` where there
    is no such file, and `InvalidInput` for what is not YAML or names a key that is not known.
    """
    return MemoryConfig.read(_read(Path(path), depth=0))


def _read(path: Path, *, depth: int) -> dict[str, Any]:
    if depth > _DEEPEST:
        raise InvalidInput(f"{path} names itself in its defaults.", hint="Correct the lists `defaults`.")
    data = _mapping(path)
    named = data.pop("defaults", [])
    own = data["memory"] if set(data) == {"memory"} and isinstance(data["memory"], Mapping) else data
    if not isinstance(named, list) or not all(isinstance(name, str) for name in named):
        raise InvalidInput(
            f"{path}: `defaults` is not a list of names.", hint="Write such as: defaults: [default, _self_]."
        )
    whole: dict[str, Any] = {}
    for name in named if _SELF in named else [*named, _SELF]:
        part = own if name == _SELF else _read(path.with_name(f"{name}.yaml"), depth=depth + 1)
        whole = _merged(whole, part)
    return whole


def _mapping(path: Path) -> dict[str, Any]:
    try:
        data = yaml.safe_load(path.read_text(encoding="utf-8"))
    except FileNotFoundError as error:
        raise NotFound(f"There is no configuration {path}.", hint="Correct its path.") from error
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise InvalidInput(f"{path} is not YAML: {error}", hint="Correct the file.") from error
    if not isinstance(data, dict):
        raise InvalidInput(f"{path} is not an object of keys.", hint="Write KEY: VALUE on each line.")
    return data


def _merged(base: Mapping[str, Any], over: Mapping[str, Any]) -> dict[str, Any]:
    """Return both, key by key, the second one's values over the first one's."""
    both = {
        key: _merged(base[key], value) if isinstance(value, Mapping) and isinstance(base.get(key), Mapping) else value
        for key, value in over.items()
    }
    return {**base, **both}
