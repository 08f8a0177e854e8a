"""Facts, entities and episodes of Graphiti and Zep."""

from collections.abc import Iterator, Mapping

from treering.edges.sources.loose_json import Record, first_words, listed, moment, record, words
from treering.edges.sources.memories.memory import ForeignMemory, LeftOut, Told, besides, written
from treering.ports.adapter import KnowledgeDraft


def is_fact(value: object) -> bool:
    """Tell whether this is a fact: an edge between two entities."""
    found = record(value)
    ends = found.keys() & {"source_node_uuid", "valid_at", "expired_at"}
    return bool(words(found.get("uuid"))) and bool(words(found.get("fact")).strip()) and bool(ends)


def claims(found: Record) -> bool:
    """Tell whether a document holds facts."""
    edges = _edges(found)
    return bool(edges) and is_fact(edges[0])


def read(found: Record) -> Iterator[Told]:
    """Read a document with facts, and with the entities and episodes that it names."""
    nodes = [record(one) for one in _listed(found, "nodes", "entities")]
    names = {words(one.get("uuid")): words(one.get("name")) for one in nodes}
    yield from facts(_edges(found), names)
    for place, node in enumerate(nodes):
        yield _entity(node) if _summary(node) else LeftOut(f"nodes/{place}", "an entity of which nothing is told")
    for place, one in enumerate(_listed(found, "episodes")):
        episode = record(one)
        yield _episode(episode) if _content(episode) else LeftOut(f"episodes/{place}", "an episode without content")


def facts(found: Iterator[object] | tuple[object, ...] | list[object], names: Mapping[str, str]) -> Iterator[Told]:
    """Read facts. `names` are those of the entities, by their id."""
    for place, one in enumerate(found):
        yield _fact(record(one), names) if is_fact(one) else LeftOut(f"edges/{place}", "it is not a fact of Graphiti")


def _edges(found: Record) -> list[object]:
    return _listed(found, "edges", "facts")


def _listed(found: Record, *names: str) -> list[object]:
    return next((list(listed(found[name])) for name in names if isinstance(found.get(name), list)), [])


def _fact(edge: Record, names: Mapping[str, str]) -> ForeignMemory:
    text = words(edge.get("fact"))
    over = any(edge.get(name) for name in ("invalid_at", "expired_at"))
    subject = _named(edge, names, "source")
    return ForeignMemory(
        "graphiti",
        words(edge.get("uuid")),
        text,
        at=written(edge) or moment(edge.get("valid_at")),
        metadata=besides(edge, "uuid", "fact"),
        about="" if over else first_words(edge, "group_id", "user_id") or "the graph",
        claim=None if over or not subject else _claim(edge, subject, _named(edge, names, "target"), text),
    )


def _named(edge: Record, names: Mapping[str, str], end: str) -> str:
    return first_words(edge, f"{end}_node_name", f"{end}_name") or names.get(words(edge.get(f"{end}_node_uuid")), "")


def _claim(edge: Record, subject: str, other: str, text: str) -> KnowledgeDraft | None:
    relation = words(edge.get("name")).replace("_", " ").lower().strip()
    if not (other and relation):
        return None
    return KnowledgeDraft(
        "fact", text, {"subject": subject, "predicate": relation, "object": other}, segment=0, summary=text
    )


def _entity(node: Record) -> ForeignMemory:
    name = words(node.get("name"))
    taken = besides(node, "uuid", "name", "summary")
    return ForeignMemory(
        "graphiti", words(node.get("uuid")), _summary(node), title=name, at=written(node), metadata=taken, about=name
    )


def _summary(node: Record) -> str:
    return words(node.get("summary")).strip() and words(node.get("name")).strip() and words(node.get("summary"))


def _episode(found: Record) -> ForeignMemory:
    return ForeignMemory(
        "graphiti",
        words(found.get("uuid")),
        _content(found),
        title=words(found.get("name")),
        at=moment(found.get("valid_at")) or written(found),
        metadata=besides(found, "uuid", "content", "name"),
    )


def _content(found: Record) -> str:
    return first_words(found, "content", "body")
