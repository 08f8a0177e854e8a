"""Find which classes inherit from each other, by the declarations of classes in the index."""

import re
from collections.abc import Iterable, Mapping, Set

from treering.extensions.code.links.places import places_in
from treering.ports.ledger import ObjectRequest, ObjectsFound
from treering.ports.passages import PassageRequest, PassagesFound, Reach
from treering.retrieval.index.code_names import last_name
from treering.retrieval.index.rounds import Steps

_MAX_LEVELS = 3
_MAX_CLASSES = 40
"""Classes whose declarations are read on one level."""
_NAME = re.compile(r"[A-Za-z_]\w*")
_ENDS = {"py": ":", "rb": "\n"}
"""The end of the line with the bases of a class, by language family; `{` in others."""


def related_classes(own: Set[str], others: Set[str], *, family: str, root: str, reach: Reach) -> Steps[frozenset[str]]:
    """Return the other classes that are a base class or an interface of an own one, or inherit from one."""
    bases: dict[str, frozenset[str]] = {}
    level = [*own, *others]
    for _ in range(_MAX_LEVELS):
        wanted = level[:_MAX_CLASSES]
        declared = yield from _bases(wanted, family=family, root=root, reach=reach)
        bases |= {name: declared.get(name, frozenset()) for name in wanted}
        level = sorted(frozenset().union(*declared.values()) - bases.keys())
        if not level:
            break
    above = {name: _ancestors(name, bases) for name in (*own, *others)}
    return frozenset(one for one in others for mine in own if one in above[mine] or mine in above[one])


def _bases(names: Iterable[str], *, family: str, root: str, reach: Reach) -> Steps[Mapping[str, frozenset[str]]]:
    """Return by the name of a class the words in the declaration of its bases."""
    indexed = {last_name(family, name): name for name in names}
    found: PassagesFound = yield PassageRequest((), reach, named=tuple(indexed))
    places = [
        (name, place.head.object_id, place.head.part)
        for key, name in indexed.items()
        for place in places_in(found, key, family, root)
        if not place.is_test
    ]
    if not places:
        return {}
    read: ObjectsFound = yield ObjectRequest(segments=tuple({(source, part) for _, source, part in places}))
    bases: dict[str, frozenset[str]] = {}
    for name, *place in places:
        if segment := read.segments.get((place[0], place[1])):
            bases[name] = bases.get(name, frozenset()) | _declared(segment.excerpt, name, family)
    return bases


def _declared(text: str, name: str, family: str) -> frozenset[str]:
    end = _ENDS.get(family, "{")
    declaration = rf"\b(?:class|interface|struct)\s+{re.escape(name)}\b([^{end}]*){end}"
    bases = (match[1] for match in re.finditer(declaration, text))
    words = frozenset(word for one in bases for word in _NAME.findall(one))
    return words - {name, "extends", "implements"}


def _ancestors(name: str, bases: Mapping[str, frozenset[str]]) -> frozenset[str]:
    above: frozenset[str] = frozenset()
    level = bases.get(name, frozenset())
    while new := level - above:
        above |= new
        level = frozenset().union(*(bases.get(one, frozenset()) for one in new))
    return above
