"""What code names: the symbol it defines, what it imports, calls and defines, and its constants and types."""

import re
from collections.abc import Iterator

from treering.derived.extraction.relations import distinct, statement
from treering.ports.extractor import Entity, EntityKind, Excerpt, Extraction


def read_code(excerpt: Excerpt) -> Extraction:
    """Read a stretch of code in any of the usual languages; its heading is the symbol it stands for.

    A call on the instance itself (`self.flush()` in `Ledger.commit`) is related to the full symbol (`Ledger.flush`).
    """
    symbol = excerpt.heading or excerpt.title
    entities = [Entity(symbol, "symbol")] if symbol.strip() else []
    stated: dict[tuple[str, str], None] = {}  # code uses the same again and again
    for relation, entity, target in _uses(excerpt.text, symbol):
        entities.append(entity)
        if relation:
            stated[relation, target] = None
    triples = (statement(symbol, relation, target) for relation, target in stated)
    return Extraction(tuple(entities), tuple(distinct(triples)) if symbol.strip() else ())


_PATH = r"[A-Za-z_@][\w@]*+(?:(?:\.|::|/|-)\w++)*+"
_USE = re.compile(
    rf"^[ \t]{{0,40}}(?:pub )?(?:from[ ]++(?P<from>\.*+[\w.]*+)[ ]++import[ ]++\(?(?P<names>[^\n()#]{{0,300}})"
    rf"|(?:import|use|using|require|include)[ ]++(?:static )?(?P<module>{_PATH}))"
    r"|#include[ ]*+[<\"](?P<header>[^>\"\n]{1,200})[>\"]"
    r"|\b(?:from|require|import)[ ]?\(?[ ]?['\"](?P<path>[^'\"\n]{1,200})['\"]"
    r"|\b(?:def|class|function|fn|func|struct|interface|trait|enum|protocol|module|type)[ ]++(?P<defined>[A-Za-z_]\w*+)"
    r"|(?<![\w.])(?:self|this|cls)(?:\.|->|::)(?P<own>[A-Za-z_]\w*+)\("
    r"|(?<![\w.])(?P<called>[A-Za-z_]\w*+(?:(?:\.|::|->)[A-Za-z_]\w*+){0,20}+)!?\("
    r"|(?<![\w.])(?P<constant>[A-Z][A-Z0-9]*+_[A-Z0-9_]++|[A-Z][A-Z0-9]{3,}+)(?!\w)"
    r"|(?<![\w.])(?P<type>[A-Z][a-z0-9]++(?:[A-Z][a-z0-9]*+)++)(?!\w)"
    r"|[A-Za-z_]\w*+",
    re.MULTILINE,
)
_IMPORTED = re.compile(r"(?P<name>[A-Za-z_]\w*+)(?: as \w++)?")
_KINDS: dict[str, tuple[str, EntityKind]] = {
    "from": ("imports", "module"),
    "names": ("imports", "module"),
    "module": ("imports", "module"),
    "header": ("imports", "module"),
    "path": ("imports", "module"),
    "defined": ("defines", "symbol"),
    "own": ("calls", "symbol"),
    "called": ("calls", "symbol"),
    "constant": ("", "symbol"),
    "type": ("", "symbol"),
}
_JOINT = re.compile(r"\.|::|->")
_LONGEST = 120
_SHORTEST = 3
# What every program calls says nothing about this one.
_EVERYWHERE = frozenset(
    """if for while switch catch return and or not in is match when with assert print len range str int float bool list
    dict set tuple super isinstance issubclass type getattr setattr hasattr enumerate zip map filter sorted sum min max
    any all open repr iter next abs round format join split strip append extend get items keys values pop add update
    println printf sizeof malloc free new delete typeof instanceof function fn def func class defined push
    len. cap make panic unwrap expect clone into from some none ok err vec console.log string number array object lambda
    yield await async elif else except del raise throw self this cls void const let var static public private""".split()
)


def _uses(text: str, symbol: str) -> Iterator[tuple[str, Entity, str]]:
    """Return each use in order: how it is related, what is used, and what that is called in a triple."""
    owner = symbol.rpartition(".")[0]
    for match in _USE.finditer(text):
        group = match.lastgroup
        if group is None:
            continue
        if group == "names":
            yield from _imports(match)
            continue
        name = match[group]
        if _is_telling(name) and name != symbol.rpartition(".")[2]:
            relation, kind = _KINDS[group]
            target = f"{owner}.{name}" if group == "own" and owner else name
            yield relation, Entity(name, kind, *match.span(group)), target


def _imports(match: re.Match[str]) -> Iterator[tuple[str, Entity, str]]:
    module = match["from"]
    if module:
        yield "imports", Entity(module, "module", *match.span("from")), module
    for one in _IMPORTED.finditer(match.string, *match.span("names")):
        yield "imports", Entity(one["name"], "symbol", *one.span("name")), one["name"]


def _is_telling(name: str) -> bool:
    if name in _EVERYWHERE or not _SHORTEST <= len(name) <= _LONGEST:
        return False
    return name.isidentifier() or _JOINT.split(name)[-1] not in _EVERYWHERE
