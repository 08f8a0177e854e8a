"""What stored records of the graph say by name, and what is wrong with them in themselves."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping

from treering.core.errors import Corrupt
from treering.derived.graph_records import NumberedTies, unpack_ties
from treering.derived.ties import Ties
from treering.edges.index_rows.graph_names import named_content, names_in, numbered, stored_name

Records = Iterable[tuple[int, bytes]]
"""Records by passage key."""


def content_hashes(records: Records, names: Mapping[int, bytes]) -> dict[int, int]:
    """Give, by passage key, a hash of its ties by name; of what is damaged another than any."""
    return {key: hash(record and named_content(record, names)) for key, record in _unpacked(records)}


def content_hash(ties: Ties) -> int:
    """Return the hash that `content_hashes` gives of a passage with these ties."""
    numbers = {name: number for number, name in enumerate(sorted(names_in(ties)), start=1)}
    names = {number: stored_name(name) for name, number in numbers.items()}
    return hash(named_content(numbered(ties, numbers), names))


def graph_faults(records: Records, counted: Mapping[int, int]) -> Iterator[str]:
    """Say what is wrong with records, and with the names (`counted`: how many passages hold each) that they take."""
    held: Counter[int] = Counter()
    damaged = 0
    for _, record in _unpacked(records):
        damaged += record is None
        held.update(record.numbers() if record else ())
    if damaged:
        yield f"{damaged} records of the graph are damaged"
    if wrong := sum(counted.get(number) != held.get(number) for number in counted.keys() | held.keys()):
        yield f"{wrong} names of the graph are missing, left over or wrongly counted"


def _unpacked(records: Records) -> Iterator[tuple[int, NumberedTies | None]]:
    for key, body in records:
        try:
            yield key, unpack_ties(body)
        except Corrupt:
            yield key, None
