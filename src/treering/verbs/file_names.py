"""Find files by a path, the end of a path, or the name of a module."""

from collections.abc import Iterable, Sequence

from treering.core.objects import Source
from treering.ports.ledger import ObjectRequest
from treering.ports.passages import PassageHead, PassageRequest, Reach
from treering.ports.search import TextRequest
from treering.verbs.envelope import Call

MAX_READ = 60
"""Sources that are read for one name."""
_MAX_PLACES = 20


def files_called(call: Call, name: str, reach: Reach) -> Sequence[Source]:
    """Return the files at a path, or whose path ends so, or else the module of a name such as `flask.sessions`."""
    return read_sources(call, ids_at_path(passages_called(call, name, reach), name)) or modules_called(
        call, name, reach
    )


def passages_called(call: Call, text: str, reach: Reach) -> list[PassageHead]:
    """Return the passages whose source or heading has a name, or a path that ends so."""
    index = call.engine.index
    (hits,) = index.text.search([TextRequest(reach, _MAX_PLACES, place=text)])
    (read,) = index.passages.read([PassageRequest(tuple(hit.key for hit in hits.places), reach)])
    return [read.heads[hit.key] for hit in hits.places if hit.key in read.visible]


def ids_at_path(heads: Sequence[PassageHead], text: str) -> list[str]:
    """Return the ids of the objects at a name or path; of those with exactly this name if there are any."""
    matching = [head for head in heads if _is_called(head, text)]
    exact = [head for head in matching if text in (head.title, head.origin)]
    return list(dict.fromkeys(head.object_id for head in exact or matching))


def modules_called(call: Call, name: str, reach: Reach) -> Sequence[Source]:
    """Return the files of code that are the module of a name, with dots, `::` or slashes in it."""
    return call.engine.lookup.modules(name, reach, call.engine.ledger)


def read_sources(call: Call, ids: Iterable[str]) -> Sequence[Source]:
    """Return the sources among objects with these ids, in their order."""
    unique = tuple(dict.fromkeys(ids))[:MAX_READ]
    if not unique:
        return []
    (read,) = call.engine.ledger.read([ObjectRequest(objects=unique)])
    items = (read.objects.get(identity) for identity in unique)
    return [item for item in items if isinstance(item, Source)]


def sources_here(call: Call, ids: Iterable[str]) -> Sequence[Source]:
    """Return the sources among objects with these ids, with the lines that they have in the caller's work tree."""
    sources = read_sources(call, ids)
    return [call.tree.source_here(one) for one in sources] if call.tree else sources


def _is_called(head: PassageHead, text: str) -> bool:
    """Return whether a source has a name, or a path that ends so."""
    return text in (head.title, head.origin) or head.origin.endswith((f"/{text}", f"#{text}"))
