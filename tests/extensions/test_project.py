import json
import sys
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from subprocess import PIPE, Popen

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from memory_parts import NotingModel, documents, objects, open_projects, outcomes

from late_index import LateIndex
from space_parts import open_space
from treering.core.errors import Denied, InvalidInput, NotFound
from treering.core.evidence import Triple
from treering.core.fencing import fence
from treering.extensions.encoder.asking import Budget
from treering.extensions.projects.documents import text_of
from treering.extensions.projects.project import ProjectMemory
from treering.ports.passages import Reach
from treering.verbs import catalog
from treering.verbs.envelope import WRITES, Envelope

CACHE = "The cache served stale pages; versioned keys fixed it."
DEPLOY = "Deploys run at night and never on a Friday."
LONG = (
    "# Guide\n\n## Caches\n\n"
    + "A cache keeps what was read. " * 80
    + "\n\n\n## Deploys\n\n"
    + "Deploy late. " * 150
    + "\n"
)


def found(memory, query, count=5):
    (recalled,) = memory.retrieve("acme", [query], count)
    return recalled["docs"]


def test_a_document_is_kept_once_and_found_whole(memory):
    assert outcomes(memory.index("acme", [CACHE, DEPLOY, CACHE])) == ["created", "created", "unchanged"]
    assert memory.index("acme", [CACHE]).counts == {"unchanged": 1}
    assert found(memory, "stale cache") == [CACHE]
    assert len(objects(memory, "acme", "source")) == 2


def test_each_query_has_its_element_in_order_best_document_first(memory):
    memory.index("acme", [CACHE, DEPLOY, "The cache is warmed at night by a job that reads every page."])
    first, second = memory.retrieve("acme", ["deploys on a Friday", "stale pages of the cache"])
    assert (first["question"], second["question"]) == ("deploys on a Friday", "stale pages of the cache")
    assert first["docs"][0] == DEPLOY
    assert second["docs"][0] == CACHE
    for recalled in (first, second):
        assert recalled["doc_scores"] == sorted(recalled["doc_scores"], reverse=True)
        assert len(recalled["docs"]) == len(recalled["doc_scores"]) == len(set(recalled["docs"]))


@pytest.mark.parametrize("query", ["zebra migration", "Which xylophone does the zebra play?"])
def test_a_question_about_something_else_finds_nothing(memory, query):
    memory.index("acme", [DEPLOY], wait=True)
    assert memory.retrieve("acme", [query]) == [{"question": query, "docs": [], "doc_scores": []}]


def test_a_long_document_is_found_once_however_many_of_its_parts_match(memory):
    memory.index("acme", [LONG, *(f"Note {n}: a cache keeps what was read by reader {n}." for n in range(9))])
    docs = found(memory, "a cache keeps what was read", 10)
    assert len(docs) == len(set(docs)) == 10
    assert LONG in docs


def test_only_documents_are_retrieved_and_other_sources_take_no_places(memory):
    memory.index("acme", [CACHE])
    with memory.engine("acme") as engine:
        notes = [{"text": f"The cache served stale pages in case {n}."} for n in range(50)]
        catalog.call(engine, "ingest", Envelope(mode="source", input={"items": notes}), granted=WRITES)
    assert found(memory, "the cache served stale pages", 1) == [CACHE]


@settings(max_examples=25, deadline=None)
@given(
    st.lists(
        st.text(st.sampled_from("ab# -*>`\n\r\t\x0c \u2028é日\0"), min_size=1).filter(str.strip), min_size=1, max_size=4
    )
)
def test_every_text_comes_back_character_by_character(texts):
    with memory_in_ram() as memory:
        memory.index("acme", texts)
        with memory.engine("acme") as engine:
            kept = {text_of(item) for item in objects(memory, "acme", "source")}
            assert kept == set(texts)
            assert engine.ledger.verify()
        assert set(outcomes(memory.delete("acme", list(dict.fromkeys(texts))))) == {"deleted"}


@contextmanager
def memory_in_ram():
    """Return a project memory whose only project is in memory."""
    with open_space() as space:
        yield ProjectMemory(lambda _, create: nullcontext(space.engine))


@pytest.mark.parametrize("text", [LONG, "one\r\n\r\n  two  \r\n", "  padded\n\n", "Title\n=====\n\nSub\n---\n\ntext\n"])
def test_documents_that_are_cut_into_segments_come_back_exact(memory, text):
    memory.index("acme", [text])
    assert found(memory, "cache two padded text") == [text]


def test_a_secret_is_not_kept_and_the_report_says_so(memory):
    given = "Deploys log in with ghp_" + "a1B2c3D4e5F6" * 3 + "."
    (result,) = memory.index("acme", [given]).results
    assert any("secret was redacted" in change for change in result.changes)
    (kept,) = found(memory, "deploys log in")
    assert "ghp_" not in kept
    assert memory.index("acme", [kept]).counts == {"unchanged": 1}
    assert memory.delete("acme", [given]).counts == {"deleted": 1}


def test_text_recalled_from_memory_is_not_kept_again(memory):
    recalled = fence(CACHE, origin="doc")
    mixed, only = memory.index("acme", [f"We read this: {recalled} and it helped.", recalled]).results
    assert (mixed.outcome, only.outcome) == ("created", "skipped")
    assert found(memory, "we read this and it helped") == ["We read this:  and it helped."]


def test_a_document_is_deleted_by_its_exact_text(memory):
    memory.index("acme", [CACHE, DEPLOY])
    report = memory.delete("acme", [CACHE, "Nobody said this.", CACHE])
    assert outcomes(report) == ["deleted", "unknown", "unknown"]
    assert found(memory, "stale cache") == []
    assert found(memory, "deploys") == [DEPLOY]


def test_deleting_and_indexing_again_works_any_number_of_times(memory):
    for _ in range(4):
        assert outcomes(memory.index("acme", [CACHE])) == ["created"]
        assert found(memory, "stale cache") == [CACHE]
        assert outcomes(memory.delete("acme", [CACHE])) == ["deleted"]
        assert outcomes(memory.delete("acme", [CACHE])) == ["unknown"]


def test_knowledge_that_rested_on_a_deleted_document_alone_is_stale(memory):
    memory.index("acme", [CACHE])
    (source,) = objects(memory, "acme", "source")
    with memory.engine("acme") as engine:
        fact = {
            "kind": "fact",
            "title": "Keys are versioned",
            "payload": {"subject": "cache", "predicate": "keys", "value": "versioned"},
            "evidence_refs": [{"source_id": source.id, "segment_id": source.segments[0].segment_id}],
            "status": "active",
        }
        catalog.call(engine, "crystallize", Envelope(mode="knowledge", input=fact), granted=WRITES)
    (known,) = objects(memory, "acme", "knowledge")
    assert memory.delete("acme", [CACHE]).staled == (known.id,)


def test_an_erased_document_leaves_nothing_of_its_earlier_copies_either(memory, tmp_path):
    for _ in range(3):
        memory.index("acme", [CACHE])
        memory.delete("acme", [CACHE])
    memory.index("acme", [CACHE, DEPLOY])
    report = memory.delete("acme", [CACHE, "Nobody said this."], erase=True)
    assert outcomes(report) == ["erased", "unknown"]
    assert report.erasure
    assert report.erasure.clean
    assert len(report.erasure.ids) == 4
    assert [item.title for item in objects(memory, "acme", "source")] == [DEPLOY]
    assert outcomes(memory.index("acme", [CACHE])) == ["created"]


def test_an_agent_may_not_erase(tmp_path):
    with open_projects(tmp_path) as memory:
        memory.index("acme", [CACHE], triples=[[]])
        with pytest.raises(Denied) as denied:
            memory.delete("acme", [CACHE], erase=True)
        assert "erasing_channels" in denied.value.hint
        assert found(memory, "stale cache") == [CACHE]


def test_triples_are_kept_with_the_document_they_are_stated_by(memory):
    stated = Triple(subject="versioned keys", relation="fixed", object="the cache")
    assert outcomes(memory.index("acme", [CACHE, DEPLOY], triples=[[stated], []])) == ["created", "created"]
    (source,) = [item for item in objects(memory, "acme", "source") if item.title == CACHE]
    assert [triple for segment in source.segments for triple in segment.triples] == [stated]
    assert memory.index("acme", [CACHE]).counts == {"unchanged": 1}, "without triples the known ones stay"


def test_the_text_of_a_document_is_read_besides_its_triples(memory):
    with pytest.raises(InvalidInput, match="triples") as refused:
        memory.index("acme", [CACHE], triples=[])
    assert "one list per document" in refused.value.hint
    memory.index("acme", ["Notes\n\nAda Lovelace worked with Charles Babbage."], triples=[[]])
    with memory.engine("acme") as engine:
        assert set(engine.index.graph.view(Reach("/")).named(["ada lovelace", "charles babbage"])) == {
            "ada lovelace",
            "charles babbage",
        }


def test_waiting_until_documents_are_found_by_meaning_leaves_no_vector_to_make(memory):
    assert memory.index("acme", [CACHE]).pending_vectors == 1
    assert memory.index("acme", [DEPLOY], wait=True).pending_vectors == 0


def test_projects_do_not_see_each_other(memory):
    memory.index("acme", [CACHE])
    memory.index("other", [DEPLOY])
    assert memory.retrieve("other", ["stale cache"])[0]["docs"] == []
    assert memory.delete("other", [CACHE]).counts == {"unknown": 1}


def test_neither_reading_nor_deleting_makes_a_project(tmp_path):
    with open_projects(tmp_path / "projects", model=NotingModel(lambda _: "{}"), channel="user") as memory:
        nothing = {"question": "stale cache", "docs": [], "doc_scores": []}
        assert memory.retrieve("acme", ["stale cache"]) == [nothing]
        assert memory.rag_qa("acme", ["stale cache"]) == [{**nothing, "answer": "", "citations": [], "dropped": []}]
        for erase in (False, True):
            assert memory.delete("acme", [CACHE], erase=erase).counts == {"unknown": 1}
        with pytest.raises(NotFound, match="'acme'") as unknown, memory.engine("acme", create=False):
            pass
        assert "index something" in unknown.value.hint
        assert not (tmp_path / "projects").exists()
        memory.index("acme", [CACHE])
        assert found(memory, "stale cache") == [CACHE]


@pytest.mark.parametrize(
    "project",
    ["", "..", "a..b", "../x", "a/b", "a\\b", ".hidden", "-x", "é", "a b", "a\n", "x" * 65, None, -7, True, 1.5],
)
def test_a_project_id_that_could_be_a_path_is_refused_by_name(memory, project, tmp_path):
    for call in (memory.index, memory.retrieve, memory.delete):
        with pytest.raises(InvalidInput, match="project_id"):
            call(project, ["text"])
    assert not (tmp_path / "projects").exists()


@pytest.mark.parametrize("texts", ["a text", None, 7, {"a": 1}, [""], [" \n"], [7], [None]])
def test_what_is_no_list_of_texts_is_refused_by_name(memory, texts):
    for call, field in ((memory.index, "docs"), (memory.delete, "docs"), (memory.retrieve, "queries")):
        with pytest.raises(InvalidInput, match=field) as refused:
            call("acme", texts)
        assert refused.value.hint
        assert refused.value.details["fields"][0]["field"].startswith(field)


@pytest.mark.parametrize("count", [0, -1, 201, True, 2.5, "5"])
def test_a_wrong_number_of_documents_is_refused_by_name(memory, count):
    with pytest.raises(InvalidInput, match="num_to_retrieve"):
        memory.retrieve("acme", ["q"], count)


def test_too_many_queries_are_refused(memory):
    with pytest.raises(InvalidInput, match="queries"):
        memory.retrieve("acme", ["q"] * 101)


def test_nothing_given_is_nothing_done(memory):
    assert memory.index("acme", []).results == memory.delete("acme", []).results == ()
    assert memory.retrieve("acme", []) == []


def test_an_answer_cites_documents_and_invented_citations_are_dropped(tmp_path):
    model = NotingModel(lambda _: json.dumps({"answer": "Versioned keys.", "citations": [1, 7, 1, 0]}))
    with open_projects(tmp_path, model=model) as memory:
        memory.index("acme", [CACHE], triples=[[]])
        (answered,) = memory.rag_qa("acme", ["What fixed the stale cache?"])
    assert answered["answer"] == "Versioned keys."
    assert (answered["citations"], answered["dropped"]) == ([1], [7, 0])
    assert answered["docs"] == [CACHE]
    assert fence(CACHE, origin="document 1") in model.prompts[0]


def test_without_documents_no_model_is_asked(tmp_path):
    model = NotingModel(lambda _: "never")
    with open_projects(tmp_path, model=model) as memory:
        memory.index("acme", [DEPLOY], triples=[[]])
        (answered,) = memory.rag_qa("acme", ["What fixed the stale cache?"])
    assert (answered["answer"], answered["citations"], model.prompts) == ("", [], [])


def test_an_answer_costs_no_more_than_its_budget(tmp_path):
    model = NotingModel(lambda _: json.dumps({"answer": "Versioned keys.", "citations": [1]}))
    with open_projects(tmp_path, model=model) as memory:
        memory.index("acme", [CACHE], triples=[[]])
        with pytest.raises(Denied):
            memory.rag_qa("acme", ["stale cache?", "stale pages?"], budget=Budget(requests=1))
    assert len(model.prompts) == 1


def test_without_a_model_rag_qa_says_how_to_give_one(memory):
    with pytest.raises(InvalidInput) as refused:
        memory.rag_qa("acme", ["What fixed it?"])
    assert "model=" in refused.value.hint


PROCESS = """
import sys
from memory_parts import open_projects
with open_projects(sys.argv[1]) as memory:
    print("ready", flush=True)
    sys.stdin.readline()
    for n in range(12):
        memory.index("acme", [f"Shared note number {n} about caches.", f"Note {n} of process {sys.argv[2]}."])
        memory.retrieve("acme", ["shared note about caches"])
        memory.delete("acme", [f"Note {n} of process {sys.argv[2]}."] if n % 2 else ["Never said."])
"""


@pytest.mark.nightly
def test_two_processes_index_and_delete_in_one_project_and_nothing_is_lost(tmp_path):
    paths = {"PYTHONPATH": ":".join(sys.path)}
    command = [sys.executable, "-W", "error", "-c", PROCESS, str(tmp_path)]
    workers = [
        Popen([*command, name], stdin=PIPE, stdout=PIPE, stderr=PIPE, text=True, env=paths) for name in ("one", "two")
    ]
    for worker in workers:
        assert worker.stdout.readline() == "ready\n", worker.communicate()[1]
    for worker in workers:
        worker.stdin.write("go\n")
        worker.stdin.flush()
    for worker in workers:
        _, errors = worker.communicate(timeout=60)
        assert (worker.returncode, errors) == (0, "")
    own = [f"Note {n} of process {name}." for name in ("one", "two") for n in range(0, 12, 2)]
    shared = [f"Shared note number {n} about caches." for n in range(12)]
    with open_projects(tmp_path) as memory:
        assert sorted(documents(memory, "acme")) == sorted([*own, *shared])
        with memory.engine("acme") as engine:
            assert engine.ledger.verify()
            assert not engine.index.upkeep.differences()


def test_a_late_index_hides_no_document_that_is_put_in_or_taken_out(memory):
    @contextmanager
    def late_engine(project_id, *, create):
        with memory.engine(project_id, create=create) as engine:
            index = LateIndex(engine.index, lambda: 0)
            index.hold()
            yield replace(engine, index=index)

    late = ProjectMemory(late_engine)
    assert outcomes(late.index("acme", [CACHE, DEPLOY])) == ["created", "created"]
    assert outcomes(late.index("acme", [CACHE])) == ["unchanged"]
    assert outcomes(late.delete("acme", [CACHE])) == ["deleted"]
    assert outcomes(late.index("acme", [CACHE])) == ["created"]
    report = late.delete("acme", [CACHE], erase=True)
    assert (outcomes(report), len(report.erasure.ids)) == (["erased"], 2)
    assert documents(memory, "acme") == [DEPLOY]
