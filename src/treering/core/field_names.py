"""The names that a model accepts at a place in its data, to suggest a correction for a wrong name."""

from collections.abc import Iterator, Sequence
from typing import Any, get_args

from pydantic import BaseModel


def names_beside(model: type[BaseModel], place: Sequence[int | str]) -> list[str]:
    """Return the accepted names at a place, as in Pydantic's errors, sorted; empty if the model takes any data.

    A place leads through lists and unions, so it also contains indexes of items and tags of unions.
    """
    models = [model]
    for part in place[:-1]:
        fields = [one.model_fields[str(part)].annotation for one in models if str(part) in one.model_fields]
        if fields:
            models = [inner for annotation in fields for inner in _models_in(annotation)]
        elif isinstance(part, str):
            models = [one for one in models if _is_called(one, part)] or models
    return sorted({name for one in models for name in one.model_fields})


def _models_in(annotation: Any) -> Iterator[type[BaseModel]]:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield annotation
    for inner in get_args(annotation):
        yield from _models_in(inner)


def _is_called(model: type[BaseModel], tag: str) -> bool:
    """Return whether a tag of a union names a model: by its class, or by the value of its discriminator."""
    return model.__name__ == tag or any(field.default == tag for field in model.model_fields.values())
