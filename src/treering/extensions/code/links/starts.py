"""The places in code that people name: a file by its path, a segment, a symbol, the files of a node."""

from treering.core.canonical import is_object
from treering.core.objects import Node, Object, Source
from treering.ports.passages import Reach
from treering.retrieval.index.code_names import defined_in
from treering.retrieval.index.code_places import file_of
from treering.retrieval.index.passages import passages_of
from treering.verbs.envelope import Call
from treering.verbs.file_names import ids_at_path, modules_called, passages_called, read_sources
from treering.verbs.query.code_links import CodeStart

_MAX_FILES = 30
"""Files of a node whose links are followed."""
_MAX_SYMBOLS = 8


def starts_named(call: Call, text: str, reach: Reach) -> list[CodeStart]:
    """Return the places that a text names as a segment, path, origin, `path::symbol`, symbol or module."""
    source_id, _, segment_id = text.partition(" ")
    if segment_id and is_object(source_id):
        return [CodeStart(source, frozenset([segment_id.strip()])) for source in read_sources(call, [source_id])]
    heads = passages_called(call, text, reach)
    parts = [head for head in heads if head.part == text]
    if parts:
        return [CodeStart(source, frozenset([text])) for source in read_sources(call, [parts[0].object_id])]
    files = [CodeStart(source) for source in read_sources(call, ids_at_path(heads, text))[:1]]
    symbols = files or _symbol_at(call, text, reach) or _symbols(call, text, reach)
    return symbols or [CodeStart(source) for source in modules_called(call, text, reach)]


def starts_at(call: Call, item: Object) -> list[CodeStart]:
    """Return the file of code that an object is, or the files that a node is about."""
    match item:
        case Source():
            return [CodeStart(item)]
        case Node():
            links = call.engine.ledger.links(item.id)
            about = [link.source for link in links if link.type == "about" and link.target == item.id]
            return [CodeStart(source) for source in read_sources(call, about) if file_of(source)][:_MAX_FILES]
        case _:
            return []


def _symbol_at(call: Call, text: str, reach: Reach) -> list[CodeStart]:
    """Return the definition that a text names with its file, such as `src/retry.py::Retry.wait`."""
    path, _, symbol = text.partition("::")
    if not (symbol and "." in path):
        return []  # without a file, such as `Retry::wait`
    sources = read_sources(call, ids_at_path(passages_called(call, path, reach), path))
    name = symbol.removesuffix("()").replace("::", ".")
    return [start for source in sources if (start := start_defining(source, name))][:_MAX_SYMBOLS]


def _symbols(call: Call, name: str, reach: Reach) -> list[CodeStart]:
    """Return the definitions of a symbol, by its qualified name or the end of one; tests only if there is no other."""
    wanted = name.removesuffix("()").replace("::", ".")
    sources = call.engine.lookup.definitions(wanted, reach, call.engine.ledger)
    return [start for source in sources if (start := start_defining(source, wanted))][:_MAX_SYMBOLS]


def start_defining(source: Source, name: str) -> CodeStart | None:
    """Return the parts of a file that define a symbol, named in full or by its end; `None` if none does."""
    parts, names = set(), dict[str, None]()
    for passage in passages_of(source):
        for defined in defined_in(passage):
            if defined == name or defined.endswith(f".{name}"):
                parts.add(passage.part)
                names[defined] = None
    return CodeStart(source, frozenset(parts), tuple(names)) if parts else None
