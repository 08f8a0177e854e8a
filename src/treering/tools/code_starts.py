"""What people name when they ask for links of code: a file by its path, a segment, a symbol, the files of a node."""

from collections.abc import Iterable, Sequence

from treering.core.ids import is_object
from treering.core.objects import Node, Object, Source
from treering.derived.code_names import CODE_FAMILIES, defined_in, last_name, module_name
from treering.derived.code_places import file_of
from treering.derived.passages import passages_of
from treering.derived.roles import is_test_path
from treering.ports.ledger import ObjectRequest
from treering.ports.passages import PassageHead, PassageRequest
from treering.ports.reach import Reach
from treering.ports.text import TextRequest
from treering.tools.code_related import CodeStart
from treering.tools.envelope import Call

_MOST_FILES = 30
"""Files of a node, or files with a symbol of one name, that are looked at."""
_MOST_SYMBOLS = 8
_PLACES = 20


def starts_named(call: Call, text: str, reach: Reach) -> list[CodeStart]:
    """Return the places that a text names which is no id of an object: a segment, path, origin, symbol or module."""
    source_id, _, segment_id = text.partition(" ")
    if segment_id and is_object(source_id):
        return [CodeStart(source, frozenset([segment_id.strip()])) for source in _sources(call, [source_id])]
    heads = _at(call, text, reach)
    parts = [head for head in heads if head.part == text]
    if parts:
        return [CodeStart(source, frozenset([text])) for source in _sources(call, [parts[0].object_id])]
    files = [CodeStart(source) for source in _sources(call, _at_path(heads, text)[:1])]
    symbols = files or _symbols(call, text, reach)
    return symbols or [CodeStart(source) for source in _modules(call, text, reach)]


def files_called(call: Call, name: str, reach: Reach) -> Sequence[Source]:
    """Return the files that go by a path, by the end of one, or as a module by a name such as `flask.sessions`."""
    return _sources(call, _at_path(_at(call, name, reach), name)) or _modules(call, name, reach)


def starts_at(call: Call, item: Object) -> list[CodeStart]:
    """Return the files of code that an object is, or that a node stands for."""
    match item:
        case Source():
            return [CodeStart(item)]
        case Node():
            links = call.engine.ledger.links(item.id)
            about = [link.source for link in links if link.type == "about" and link.target == item.id]
            return [CodeStart(source) for source in _sources(call, about) if file_of(source)][:_MOST_FILES]
        case _:
            return []


def _at(call: Call, text: str, reach: Reach) -> list[PassageHead]:
    index = call.engine.index
    (found,) = index.text.search([TextRequest(reach, _PLACES, place=text)])
    (read,) = index.passages.read([PassageRequest(tuple(hit.key for hit in found.places), reach)])
    return [read.heads[hit.key] for hit in found.places if hit.key in read.visible]


def _at_path(heads: Sequence[PassageHead], text: str) -> list[str]:
    """Return the ids of what goes by a name or path: of what goes by the whole of it where anything does."""
    called = [head for head in heads if _is_called(head, text)]
    whole = [head for head in called if text in (head.title, head.origin)]
    return list(dict.fromkeys(head.object_id for head in whole or called))


def _modules(call: Call, name: str, reach: Reach) -> Sequence[Source]:
    """Return the files of code that are the module of a name: with dots, `::` or slashes between its parts."""
    path = name.strip().replace("::", "/").strip("/")
    if not path or any(character.isspace() for character in path):
        return []
    spelled = dict.fromkeys((path, path.replace(".", "/")))
    names = tuple(module_name(family, one) for family in CODE_FAMILIES for one in spelled)
    (found,) = call.engine.index.passages.read([PassageRequest((), reach, named=names)])
    sources = _sources(call, (head.object_id for head in found.heads.values()))
    return [one for one in sources if (file := file_of(one)) and not spelled.keys().isdisjoint(file[0].modules)]


def _is_called(head: PassageHead, text: str) -> bool:
    """Tell whether a source goes by a name, or by a path that ends so."""
    return text in (head.title, head.origin) or head.origin.endswith((f"/{text}", f"#{text}"))


def _symbols(call: Call, name: str, reach: Reach) -> list[CodeStart]:
    """Return where a symbol is defined, by its qualified name or the end of one; in code before tests."""
    wanted = name.removesuffix("()").replace("::", ".")
    names = tuple(last_name(family, wanted) for family in CODE_FAMILIES)
    (found,) = call.engine.index.passages.read([PassageRequest((), reach, named=names)])
    ids = dict.fromkeys(head.object_id for head in found.heads.values())
    starts = [start for source in _sources(call, ids) if (start := _defining(source, wanted))]
    exact = [start for start in starts if wanted in start.names] or starts
    code = [start for start in exact if not is_test_path(start.source.title)]
    return (code or exact)[:_MOST_SYMBOLS]


def _defining(source: Source, name: str) -> CodeStart | None:
    parts, names = set(), dict[str, None]()
    for passage in passages_of(source):
        for defined in defined_in(passage):
            if defined == name or defined.endswith(f".{name}"):
                parts.add(passage.part)
                names[defined] = None
    return CodeStart(source, frozenset(parts), tuple(names)) if parts else None


def _sources(call: Call, ids: Iterable[str]) -> Sequence[Source]:
    asked = tuple(dict.fromkeys(ids))[: 2 * _MOST_FILES]
    if not asked:
        return []
    (found,) = call.engine.ledger.read([ObjectRequest(objects=asked)])
    items = (found.objects.get(identity) for identity in asked)
    return [item for item in items if isinstance(item, Source)]
