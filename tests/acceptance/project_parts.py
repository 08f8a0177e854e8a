"""Projects in a folder of the test, the graph of one as names and texts, and what it wrote to its log."""

from collections import Counter
from contextlib import closing
from pathlib import Path

import apsw
import numpy as np

import treering
from treering.ports.ledger import Selection
from treering.ports.passages import Reach
from treering.ports.search import EdgeType
from treering.testing.fakes import HashingEmbedder
from treering.testing.index_contract.stage import heads

PROJECT = "acme"


def open_projects(folder, **options):
    return treering.open_projects(folder, **{"background": False, "embedder": HashingEmbedder(), **options})


def found(memory, question, count=5):
    """Return the documents retrieved for a question, best first."""
    return memory.retrieve(PROJECT, [question], count)[0]["docs"]


def documents(memory):
    """Return the texts of all documents, sorted; one that is there twice is given twice."""
    with memory.engine(PROJECT) as engine:
        sources = engine.ledger.select(Selection(descend=True, types=("source",)))
        return sorted(segment.excerpt for item in sources if item.status == "active" for segment in item.segments)


def graph_of(memory, folder) -> Counter:
    """Return every edge of a project's graph, by the names and texts of its ends, with how often it is there.

    Also every name, with the number of passages that hold it. Ids are no part of it: another project, another history
    or another process may have given others.
    """
    with memory.engine(PROJECT) as engine, closing(apsw.Connection(str(Path(folder) / f"{PROJECT}.db"))) as file:
        held = dict(file.execute("SELECT 2 * id + 1, passages FROM graph_nodes"))
        keys = [key for (key,) in file.execute("SELECT key FROM graph_passages")]
        sources = {item.id: item.title for item in engine.ledger.select(Selection(descend=True, types=("source",)))}
        graph = engine.index.graph.view(Reach("/", descend=True))
        names = {node: sources.get(name, name) for node, name in graph.names(list(held)).items()}
        found = heads(engine.index, keys)
        names |= {2 * key: f"passage of {sources[head.object_id]}" for key, head in found.items()}
        nodes = np.array(sorted([*held, *(2 * key for key in keys)]), np.int64)
        edges = graph.edges(nodes)
        ends = zip(nodes[edges.source].tolist(), edges.target.tolist(), edges.tie.tolist(), strict=True)
        return Counter((names[one], names[other], EdgeType(tie).name) for one, other, tie in ends) + Counter(
            {("name" if passages else "left over", names[node]): passages or 1 for node, passages in held.items()}
        )


def bytes_written(folder, write) -> int:
    """Return the bytes that a write puts into the project's write-ahead log."""
    path = Path(folder) / f"{PROJECT}.db"
    with closing(apsw.Connection(str(path))) as file:
        next(file.execute("SELECT count(*) FROM sqlite_schema"))  # nothing is known of a log before the first read
        file.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_TRUNCATE)
        write()
        return path.with_name(f"{path.name}-wal").stat().st_size
