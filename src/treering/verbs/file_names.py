"""Finding files by the names people give them: a path, the end of one, or the name of a module."""

from collections.abc import Iterable, Sequence

from treering.core.objects import Source
from treering.ports.ledger import ObjectRequest
from treering.ports.passages import PassageHead, PassageRequest, Reach
from treering.ports.search import TextRequest
from treering.retrieval.index.code_names import CODE_FAMILIES, module_name
from treering.retrieval.index.code_places import file_of
from treering.verbs.envelope import Call

MAX_READ = 60
"""Sources that are read for one name."""
_MAX_PLACES = 20


def files_called(call: Call, name: str, reach: Reach) -> Sequence[Source]:
    """Return the files that go by a path, by the end of one, or as a module by a name such as `flask.sessions`."""
    return read_sources(call, ids_at_path(passages_called(call, name, reach), name)) or modules_called(
        call, name, reach
    )


def passages_called(call: Call, text: str, reach: Reach) -> list[PassageHead]:
    """Return the passages whose source or heading goes by a name, or by a path that ends so."""
    index = call.engine.index
    (found,) = index.text.search([TextRequest(reach, _MAX_PLACES, place=text)])
    (read,) = index.passages.read([PassageRequest(tuple(hit.key for hit in found.places), reach)])
    return [read.heads[hit.key] for hit in found.places if hit.key in read.visible]


def ids_at_path(heads: Sequence[PassageHead], text: str) -> list[str]:
    """Return the ids of what goes by a name or path: of what goes by the whole of it where anything does."""
    called = [head for head in heads if _is_called(head, text)]
    whole = [head for head in called if text in (head.title, head.origin)]
    return list(dict.fromkeys(head.object_id for head in whole or called))


def modules_called(call: Call, name: str, reach: Reach) -> Sequence[Source]:
    """Return the files of code that are the module of a name: with dots, `::` or slashes between its parts."""
    path = name.strip().replace("::", "/").strip("/")
    if not path or any(character.isspace() for character in path):
        return []
    spelled = dict.fromkeys((path, path.replace(".", "/")))
    names = tuple(module_name(family, one) for family in CODE_FAMILIES for one in spelled)
    (found,) = call.engine.index.passages.read([PassageRequest((), reach, named=names)])
    sources = read_sources(call, (head.object_id for head in found.heads.values()))
    return [one for one in sources if (file := file_of(one)) and not spelled.keys().isdisjoint(file[0].modules)]


def read_sources(call: Call, ids: Iterable[str]) -> Sequence[Source]:
    """Return the sources among objects with these ids, in their order."""
    asked = tuple(dict.fromkeys(ids))[:MAX_READ]
    if not asked:
        return []
    (found,) = call.engine.ledger.read([ObjectRequest(objects=asked)])
    items = (found.objects.get(identity) for identity in asked)
    return [item for item in items if isinstance(item, Source)]


def _is_called(head: PassageHead, text: str) -> bool:
    """Tell whether a source goes by a name, or by a path that ends so."""
    return text in (head.title, head.origin) or head.origin.endswith((f"/{text}", f"#{text}"))
