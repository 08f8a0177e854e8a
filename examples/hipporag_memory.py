"""A class with the interface of HippoRAG 2 over a project memory: `from examples.hipporag_memory import HippoRAG`.

`index`, `retrieve`, `delete` and `rag_qa` take and return what they do in HippoRAG 2, including the metrics for gold
documents and answers. Differences: unrelated documents are left out, so that there may be fewer than
`num_to_retrieve`; without a language model the graph is read by rules; metadata of chunks is not stored.
"""

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import fmean
from typing import Any

import numpy as np

from treering import project_memory

RECALL_AT = (1, 2, 5, 10, 20, 30, 50, 100, 150, 200)
_OF_CONFIG = {"llm_model_name": "llm_name"}
"""Names of arguments that differ in HippoRAG's configuration."""


@dataclass
class QuerySolution:
    """A question with its documents, best first, and its answer."""

    question: str
    docs: list[str]
    doc_scores: np.ndarray
    answer: str | None = None
    gold_docs: list[str] | None = None
    gold_answers: list[str] | None = None

    def to_dict(self) -> dict[str, Any]:
        """Return the fields with the first five documents, as JSON data."""
        scores = [round(float(score), 4) for score in self.doc_scores[:5]]
        return {**asdict(self), "docs": self.docs[:5], "doc_scores": scores}


Metrics = Mapping[str, float]
Solutions = list[QuerySolution]


class HippoRAG:
    """The memory in the folder `save_dir`. Models are named as in HippoRAG; without names, nothing leaves the machine.

    `global_config`: an object such as HippoRAG's `BaseConfig`, which arguments override.
    """

    def __init__(
        self,
        global_config: Any = None,
        save_dir: str | None = None,
        llm_model_name: str | None = None,
        llm_base_url: str | None = None,
        embedding_model_name: str | None = None,
        embedding_base_url: str | None = None,
    ) -> None:
        models = {
            "llm_model_name": llm_model_name,
            "llm_base_url": llm_base_url,
            "embedding_model_name": embedding_model_name,
            "embedding_base_url": embedding_base_url,
        }
        self._models: Any = {
            name: given or getattr(global_config, _OF_CONFIG.get(name, name), None) for name, given in models.items()
        }
        folder = Path(save_dir or getattr(global_config, "save_dir", None) or "outputs").absolute()
        self._folder, self._project = folder.parent, folder.name
        self._retrieval_top_k = getattr(global_config, "retrieval_top_k", 200)
        self._qa_top_k = getattr(global_config, "qa_top_k", 5)

    def index(self, docs: Sequence[Any]) -> None:
        """Store documents, texts or chunks with a text in `content`; return when they are embedded."""
        texts = [doc if isinstance(doc, str) else doc.content for doc in docs]
        project_memory.index(self._project, texts, self._folder, wait=True, **self._models)

    def delete(self, docs_to_delete: Sequence[str]) -> None:
        """Delete documents by their exact text."""
        project_memory.delete(self._project, docs_to_delete, self._folder, **self._models)

    def retrieve(
        self, queries: Sequence[str], num_to_retrieve: int | None = None, gold_docs: list[list[str]] | None = None
    ) -> Solutions | tuple[Solutions, Metrics]:
        """Return the documents that answer each query, and with `gold_docs` the recall of the first ones."""
        count = num_to_retrieve or self._retrieval_top_k
        found = project_memory.retrieve(self._project, queries, self._folder, count, **self._models)
        solutions = [QuerySolution(one["question"], one["docs"], np.array(one["doc_scores"])) for one in found]
        return solutions if gold_docs is None else (solutions, _with_gold_docs(solutions, gold_docs))

    def rag_qa(
        self,
        queries: Sequence[str | QuerySolution],
        gold_docs: list[list[str]] | None = None,
        gold_answers: list[list[str]] | None = None,
    ) -> tuple[Any, ...]:
        """Return solutions with answers, the answers, and their citations; with gold data also both metrics."""
        questions = [query if isinstance(query, str) else query.question for query in queries]
        found = project_memory.rag_qa(self._project, questions, self._folder, self._qa_top_k, **self._models)
        solutions = [
            QuerySolution(one["question"], one["docs"], np.array(one["doc_scores"]), one["answer"]) for one in found
        ]
        details = [{"citations": one["citations"], "dropped": one["dropped"]} for one in found]
        answered = (solutions, [one["answer"] for one in found], details)
        recall = _with_gold_docs(solutions, gold_docs) if gold_docs is not None else None
        return answered if gold_answers is None else (*answered, recall, _with_gold_answers(solutions, gold_answers))


def _with_gold_docs(solutions: Solutions, gold_docs: list[list[str]]) -> Metrics:
    for solution, gold in zip(solutions, gold_docs, strict=True):
        solution.gold_docs = gold
    return {
        f"Recall@{k}": round(
            fmean(
                len({*one.docs[:k]} & {*(one.gold_docs or [])}) / len({*gold})
                for one, gold in zip(solutions, gold_docs, strict=True)
            ),
            4,
        )
        for k in RECALL_AT
    }


def _with_gold_answers(solutions: Solutions, gold_answers: list[list[str]]) -> Metrics:
    pairs = []
    for solution, gold in zip(solutions, gold_answers, strict=True):
        solution.gold_answers = [*gold]
        pairs.append((_words(solution.answer or ""), [_words(text) for text in gold]))
    return {
        "ExactMatch": round(fmean(any(answer == one for one in gold) for answer, gold in pairs), 4),
        "F1": round(fmean(max(_f1(answer, one) for one in gold) for answer, gold in pairs), 4),
    }


def _words(text: str) -> list[str]:
    return [word for word in re.findall(r"\w+", text.casefold()) if word not in {"a", "an", "the"}]


def _f1(answer: list[str], gold: list[str]) -> float:
    common = (Counter(answer) & Counter(gold)).total()
    return 2 * common / (len(answer) + len(gold)) if common else 0.0
