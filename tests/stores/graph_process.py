"""A process of its own that fills a space, `together` or `one by one`, and prints a digest of its graph."""

import sys
from hashlib import sha256

from graph_stage import all_nodes, edges_of, stated
from index_stage import open_space

TEXTS = (
    "Ada Lovelace met Charles Babbage in London in 1833.",
    "Müller founded Acme; Acme bought the Müllers' house in Köln.",
    "東京タワーは東京にある。Анна Каренина уехала в Москву. وُلد نجيب محفوظ في القاهرة.",
    '"The Analytical Engine" was described by Luigi Menabrea, and Ada Lovelace translated it.',
)


def main() -> None:
    space = open_space()
    make = space.make
    sources = [make.source(text, origin=str(place), title="Notes on Ada") for place, text in enumerate(TEXTS)]
    work = make.work("Ask Ada Lovelace", source_refs=[source.id for source in sources])
    for part in [[*sources, work]] if sys.argv[1] == "together" else [[item] for item in (*sources, work)]:
        space.commit(*part)
    graph = space.index.graph
    content = (edges_of(graph, all_nodes(space)), stated(graph, list(range(9))))
    sys.stdout.write(sha256(repr(content).encode()).hexdigest() + "\n")
    space.ledger.close()


if __name__ == "__main__":
    main()
