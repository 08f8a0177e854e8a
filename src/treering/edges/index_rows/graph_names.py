"""Names of the nodes of the graph, and ties with numbers in place of names."""

from collections.abc import Mapping

from treering.derived.graph_records import NumberedTies
from treering.derived.ties import Ties
from treering.ports.graph import EdgeType

_ENTITY, _OBJECT = "e", "o"
# By tie: the first letter of a name, which keeps the ids of objects apart from entities called the same.
_KINDS = tuple(_OBJECT if tie in {EdgeType.PART, EdgeType.LINK} else _ENTITY for tie in EdgeType)


def entity_name(key: str) -> str:
    """Return the name of an entity."""
    return _ENTITY + key


def object_name(identity: str) -> str:
    """Return the name of an object."""
    return _OBJECT + identity


def stored_name(name: str) -> bytes:
    """Return the stored form of a name."""
    # Half a surrogate pair has no UTF-8; a name found in odd text may hold one.
    return name.encode(errors="surrogatepass")


def plain_name(stored: bytes) -> str:
    """Return the key of an entity or the id of an object."""
    return stored[1:].decode(errors="surrogatepass")


def names_in(ties: Ties) -> set[str]:
    """Return all names that ties take."""
    ends = (_KINDS[pair.tie] + end for pair in ties.pairs for end in (pair.one, pair.other))
    return {*(_KINDS[tie] + name for name, tie in ties.nodes), *ends}


def numbered(ties: Ties, numbers: Mapping[str, int]) -> NumberedTies:
    """Write ties with the numbers of their names."""
    ends = [
        (numbers[_KINDS[pair.tie] + pair.one], numbers[_KINDS[pair.tie] + pair.other], pair.tie, pair.words)
        for pair in ties.pairs
    ]
    fact = EdgeType.FACT
    return NumberedTies(
        tuple((numbers[_KINDS[tie] + name], tie) for name, tie in ties.nodes),
        tuple((one, other, words) for one, other, tie, words in ends if tie is fact),
        tuple((one, other, tie) for one, other, tie, _ in ends if tie is not fact),
    )


def named_content(record: NumberedTies, names: Mapping[int, bytes]) -> tuple[object, ...]:
    """Return what a record says, by name and in no order: two that say the same are equal."""
    return (
        frozenset((names.get(number), tie) for number, tie in record.nodes),
        frozenset((names.get(one), names.get(other), words) for one, other, words in record.facts),
        frozenset((names.get(one), names.get(other), tie) for one, other, tie in record.pairs),
        len(record.nodes) + len(record.facts) + len(record.pairs),
    )
