"""A process of its own that fills a project, asks it, and prints all it was told, with names for ids."""

import json
import sys

from project_parts import PROJECT, graph_of, open_projects

from treering.ports.ledger import Selection
from treering.verbs import catalog
from treering.verbs.envelope import READS, Envelope


def main() -> None:
    folder, docs, questions = sys.argv[1], json.loads(sys.argv[2]), json.loads(sys.argv[3])
    with open_projects(folder) as memory:
        memory.index(PROJECT, docs, wait=True)
        told = [memory.retrieve(PROJECT, questions, 8), sorted(graph_of(memory, folder).items())]
        with memory.engine(PROJECT) as engine:
            for question in questions:
                options = {"explain": True, "deep": True}
                asked = Envelope(mode="search", input={"text": question}, options=options)
                report = catalog.call(engine, "query", asked, granted=READS).model_dump(mode="json")
                told += [report["trace"], [(hit["text"], hit["score"], hit["explain"]) for hit in report["hits"]]]
            sources = engine.ledger.select(Selection(descend=True))
            names = {item.id: item.title for item in sources}
    text = json.dumps(told)
    for identity, name in names.items():
        text = text.replace(identity, name)
    sys.stdout.write(text)


if __name__ == "__main__":
    main()
