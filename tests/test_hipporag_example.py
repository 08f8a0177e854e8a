"""The example of a class with the interface of HippoRAG 2."""

import json
from types import SimpleNamespace

import pytest
from examples.hipporag_memory import HippoRAG

from model_endpoint import endpoint

DOCS = [
    "Quince is the staging host of Acme.",
    "Acme has its office in Graz.",
    "Graz is a city in Styria.",
    "The cat sleeps on the sofa.",
]
QUESTION = "What is the staging host of Acme?"


@pytest.fixture
def save_dir(tmp_path):
    return str(tmp_path / "outputs" / "acme")


def test_documents_are_retrieved_and_deleted(save_dir):
    memory = HippoRAG(save_dir=save_dir)
    memory.index([*DOCS[:2], *(SimpleNamespace(content=text, source_id="7") for text in DOCS[2:])])
    (solution,) = HippoRAG(SimpleNamespace(save_dir=save_dir)).retrieve([QUESTION], num_to_retrieve=2)
    assert solution.docs[0] == DOCS[0]
    assert list(solution.doc_scores) == sorted(solution.doc_scores, reverse=True)
    assert json.loads(json.dumps(solution.to_dict()))["question"] == QUESTION
    memory.delete([DOCS[0]])
    assert DOCS[0] not in memory.retrieve([QUESTION])[0].docs


def test_gold_documents_give_recall(save_dir):
    memory = HippoRAG(save_dir=save_dir)
    memory.index(DOCS)
    (solution,), recall = memory.retrieve([QUESTION], gold_docs=[[DOCS[0], "An unknown text."]])
    assert (recall["Recall@1"], recall["Recall@200"]) == (0.5, 0.5)
    assert solution.gold_docs == [DOCS[0], "An unknown text."]


def test_answers_are_measured(save_dir):
    reply = json.dumps({"answer": "It is Quince.", "citations": [1]})
    with endpoint(lambda prompt: reply if "Question:" in prompt else '{"triples": []}') as server:
        memory = HippoRAG(save_dir=save_dir, llm_model_name="scripted", llm_base_url=server.url)
        memory.index(DOCS)
        (solution,), answers, (details,), recall, quality = memory.rag_qa(
            [QUESTION], gold_docs=[[DOCS[0]]], gold_answers=[["plum", "the quince"]]
        )
        again, _, _ = memory.rag_qa([solution])
    assert (solution.answer, answers, details["citations"]) == ("It is Quince.", ["It is Quince."], [1])
    assert (recall["Recall@1"], quality) == (1.0, {"ExactMatch": 0.0, "F1": 0.5})
    assert again[0].answer == "It is Quince."
