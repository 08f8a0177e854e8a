"""Sections of a configuration: unknown keys are refused with the nearest known one."""

from collections.abc import Mapping, Sequence
from typing import Any

from pydantic import BaseModel, ConfigDict, model_validator

from treering.core.errors import nearest


class ConfigSection(BaseModel):
    """A frozen part of a configuration."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    @model_validator(mode="before")
    @classmethod
    def _known_keys(cls, given: Any) -> Any:
        if isinstance(given, Mapping):
            for key in given:
                if str(key) not in cls.model_fields:
                    raise ValueError(
                        f"there is no key {str(key)!r} here. {nearest(str(key), sorted(cls.model_fields))}"
                    )
        return given


def plain_data(given: Any) -> Any:
    """Return nested mappings and lists of any kind, such as Hydra's, as dictionaries and lists."""
    if isinstance(given, Mapping):
        return {str(key): plain_data(given[key]) for key in given}
    if isinstance(given, Sequence) and not isinstance(given, str | bytes):
        return [plain_data(one) for one in given]
    return given
