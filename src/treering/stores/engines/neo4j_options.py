"""The options of an engine in a graph database: what its nodes are called, what they show, and how it is written to."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import get_args

from treering.core.errors import InvalidInput, nearest
from treering.core.patch import LinkType
from treering.stores.engines.engine_address import BATCH, POOL, EngineAddress

LINK_TYPES = tuple(name.upper() for name in get_args(LinkType))
"""Relationships that links between objects are shown as."""
GRAPH_LABELS = ("TreeringPassage", "TreeringObject", "TreeringEntity")
STATE_LABEL = "TreeringSpace"

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,99}")
_KNOWN = ("space", "label", "property", "index", "metric", "relations", BATCH, POOL)
_METRICS = ("cosine", "euclidean")
_PROPERTY, _BATCH, _POOL = "embedding", 500, 100
_MOST = 100_000


@dataclass(frozen=True, slots=True)
class Neo4jOptions:
    """`space`: what nodes of the space are called. `label`, `property`, `index`: where its vectors lie.

    With a `label` the vectors of several spaces, and nodes of others, may lie side by side; without one, each space has
    a label of its own. `relations`: which links between objects are shown. `batch`: rows in one statement. `pool`:
    connections at most.
    """

    space: str = ""
    label: str = ""
    property: str = _PROPERTY
    index: str = ""
    metric: str = _METRICS[0]
    relations: tuple[str, ...] = ()
    batch: int = _BATCH
    pool: int = _POOL

    @classmethod
    def of(cls, address: EngineAddress) -> "Neo4jOptions":
        """Read the options of an address. Raises `InvalidInput` naming the wrong one."""
        given = address.options
        for name in given:
            if name not in _KNOWN:
                raise InvalidInput(f"{address} has an option {name!r} that does not exist.", hint=nearest(name, _KNOWN))
        label = _name(given, "label")
        return cls(
            space=given.get("space", ""),
            label=label,
            property=_name(given, "property") or _PROPERTY,
            index=_index(given.get("index", ""), label),
            metric=_chosen("metric", given.get("metric", _METRICS[0]), _METRICS),
            relations=tuple(
                _chosen("relations", one, LINK_TYPES) for one in given.get("relations", "").split(",") if one
            ),
            batch=_number(given, BATCH, _BATCH),
            pool=_number(given, POOL, _POOL),
        )


def _name(given: Mapping[str, str], option: str) -> str:
    name = given.get(option, "")
    if name and not _NAME.fullmatch(name):
        raise InvalidInput(
            f"{option}={name[:100]!r} is not a name.",
            hint="Begin with a letter; use letters, digits and _, 100 at most.",
        )
    if name in {*GRAPH_LABELS, STATE_LABEL}:
        raise InvalidInput(f"{option}={name!r} is a label of the graph.", hint="Use another name for the vectors.")
    return name


def _index(name: str, label: str) -> str:
    if name and not label:
        raise InvalidInput(
            f"index={name[:100]!r} names an index, and no label says of which nodes it is.",
            hint="Write label=NAME, too.",
        )
    return name


def _chosen(option: str, given: str, known: tuple[str, ...]) -> str:
    if given not in known:
        raise InvalidInput(f"{option}={given[:100]!r} is not known.", hint=nearest(given, known))
    return given


def _number(given: Mapping[str, str], option: str, default: int) -> int:
    text = given.get(option, str(default))
    if not (text.isdecimal() and 1 <= int(text[:9]) <= _MOST):
        raise InvalidInput(f"{option}={text[:100]!r} is not a number from 1 to {_MOST:,}.", hint=f"Write {default}.")
    return int(text)
