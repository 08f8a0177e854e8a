"""Project memory and the ticket flow, call by call as a supervising agent makes them."""

import json
from concurrent.futures import ThreadPoolExecutor
from uuid import UUID

import pytest

import treering
from model_endpoint import endpoint
from treering import project_memory
from treering.core.errors import InvalidInput
from treering.extensions.encoder.asking import Budget
from treering.extensions.encoder.language_model import Answer, Usage
from treering.extensions.projects.supervisor import SYSTEM, Assessment, ModelAssessor, Response, Script, Supervisor
from treering.extensions.projects.ticket import Ticket, TicketMemory
from treering.extensions.projects.ticket_record import SHORT_CHARS, WHOLE_CHARS
from treering.ports.ledger import Selection
from treering.system.machine import SystemClock
from treering.testing.fakes import HashingEmbedder

PAST = "Ticket: Slow login. Logging in takes ten seconds. The session table had no index; one on user_id fixed it"


@pytest.fixture
def projects(tmp_path):
    with treering.open_projects(tmp_path, background=False, embedder=HashingEmbedder(), channel="user") as opened:
        yield opened


def documents(projects, project):
    with projects.engine(project) as engine:
        found = engine.ledger.select(Selection(scope="/", types=("source",)))
        return ["".join(part.excerpt for part in item.segments) for item in found if item.status == "active"]


class Judge:
    """A language model that sends the worker on until it has seen so many turns; keeps what it was asked."""

    model_id = "judge"

    def __init__(self, turns):
        self.turns = turns
        self.prompts = []

    def answer(self, prompt, *, system="", max_output_tokens=2_000):
        self.prompts.append(prompt)
        done = len(self.prompts) > self.turns
        said = {"complete": done, "summary": "All of it.", "next_prompt": f"Do step {len(self.prompts)} marked-prompt."}
        return Answer(json.dumps(said), Usage(1, 1, 1))

    def price(self, *, input_tokens, output_tokens):
        return None


class Worker:
    def __init__(self, answer):
        self.answer = answer
        self.told = []

    def work(self, prompt, *, seconds):
        self.told.append(prompt)
        return Response(self.answer(len(self.told)))


def supervised(projects, assessor, worker, ticket):
    supervisor = Supervisor(assessor, worker, memory=TicketMemory("acme", projects), clock=SystemClock())
    return supervisor.work(ticket)


# The supervising agent sees the whole conversation


def test_every_turns_prompt_and_answer_reach_the_supervisor(projects):
    judge = Judge(turns=5)
    worker = Worker(lambda turn: f"Answer number-{turn} of the worker.")
    assert supervised(projects, ModelAssessor(judge), worker, Ticket(title="Log in")).outcome == "completed"
    for turn in range(1, 6):
        assert f"step {turn} marked-prompt" in judge.prompts[-1]
        assert f"Answer number-{turn} of the worker." in judge.prompts[-1]
        assert judge.prompts[-1].index(f"number-{turn} ") > judge.prompts[-1].index(f"step {turn} ")


def test_of_a_long_conversation_the_oldest_turns_are_summarised_and_none_is_dropped(projects):
    judge = Judge(turns=18)
    filler = "The build went on and printed lines that say nothing much. " * 150
    worker = Worker(lambda turn: f"We decided on 2026-03-{turn:02} to use Redis for cache-{turn}. {filler}")
    assert supervised(projects, ModelAssessor(judge), worker, Ticket(title="Log in")).outcome == "completed"
    last = judge.prompts[-1]
    assert all(f"cache-{turn}." in last for turn in range(1, 19))
    assert all(f"step {turn} marked-prompt" in last for turn in range(1, 19))
    assert ", summarised" in last
    assert last.count(filler.strip()) < 18
    assert len(last) < WHOLE_CHARS + SHORT_CHARS + 12_000 + 10_000


def test_the_conversation_goes_on_after_a_crash(projects):
    class Crash(Exception):
        pass

    def answer(turn):
        if turn == 3:
            raise Crash
        return f"Answer number-{turn} of the worker."

    ticket = Ticket(title="Log in")
    with pytest.raises(Crash):
        supervised(projects, ModelAssessor(Judge(turns=9)), Worker(answer), ticket)
    judge = Judge(turns=1)
    supervised(projects, ModelAssessor(judge), Worker(lambda _: "Third answer."), ticket)
    for said in ("number-1", "number-2", "Third answer."):
        assert said in judge.prompts[-1]


def test_the_system_prompt_names_the_memories_and_forbids_to_paste_them():
    assert "You have access to the memory of this project" in SYSTEM
    assert "'Memories invoked:'" in SYSTEM
    assert "never paste it into next_prompt" in SYSTEM
    assert "summary of all turns" in SYSTEM


def test_a_prompt_for_the_worker_that_pastes_the_block_of_memories_is_requested_again(projects):
    projects.index("acme", [PAST])
    answers = [
        {"complete": False, "next_prompt": f"memories  invoked:\n{PAST}"},
        {"complete": False, "next_prompt": "Put an index on user_id."},
        {"complete": True, "summary": None},
    ]

    class Pasting(Judge):
        def answer(self, prompt, *, system="", max_output_tokens=2_000):
            self.prompts.append(prompt)
            return Answer(json.dumps(answers[len(self.prompts) - 1]), Usage(1, 1, 1))

    worker = Worker(lambda _: "Done.")
    result = supervised(projects, ModelAssessor(Pasting(0)), worker, Ticket(title="Slow login"))
    assert (result.outcome, result.summary) == ("completed", "")
    assert worker.told == ["Put an index on user_id."]


def test_a_script_that_pastes_the_block_of_memories_is_refused():
    with pytest.raises(ValueError, match="in your own words"):
        Assessment(complete=False, next_prompt=f"Memories invoked:\n{PAST}")


# Tickets as they come


def test_a_ticket_without_description_works(projects):
    script = Script([Assessment(complete=False, next_prompt="Begin"), Assessment(complete=True, summary="Fixed.")])
    result = supervised(projects, script, Worker(lambda _: "ok"), Ticket(title="Fix login", description=None))
    assert result.outcome == "completed"
    assert documents(projects, "acme") == ["Ticket: Fix login. . Fixed."]


def test_a_summary_that_is_null_is_an_empty_one(projects):
    memory = TicketMemory("acme", projects)
    assert memory.complete(Ticket(title="Fix login"), None).outcome == "completed"
    assert documents(projects, "acme") == ["Ticket: Fix login. . "]
    assert memory.failures == []


@pytest.mark.parametrize("error", [TypeError("no len()"), ValueError("bad"), KeyError("docs"), RecursionError()])
def test_memory_that_fails_in_any_way_is_reported_and_the_ticket_goes_on(error):
    class Failing:
        def engine(self, project_id, *, create=True):
            raise error

        def retrieve(self, *_):
            raise error

    memory = TicketMemory("acme", Failing())
    script = Script([Assessment(complete=False, next_prompt="Begin"), Assessment(complete=True, summary="Fixed.")])
    supervisor = Supervisor(script, Worker(lambda _: "ok"), memory=memory, clock=SystemClock())
    report = supervisor.run([Ticket(title="Fix login")])
    assert [result.outcome for result in report.results] == ["completed"]
    assert {failure.step for failure in report.memory_failures} >= {"start", "keep", "complete"}
    assert all(failure.why for failure in report.memory_failures)


def test_two_tickets_alike_and_without_id_are_two_documents(projects):
    memory = TicketMemory("acme", projects)
    ticket = Ticket(title="Fix login", description="It fails")
    first, second, again = (memory.complete(ticket, said) for said in ("The key.", "The clock.", "The clock."))
    assert [done.outcome for done in (first, second, again)] == ["completed", "completed", "unchanged"]
    assert first.work_item != second.work_item
    both = {"Ticket: Fix login. It fails. The key.", "Ticket: Fix login. It fails. The clock."}
    assert set(documents(projects, "acme")) == both
    assert memory.revert(ticket)
    assert documents(projects, "acme") == ["Ticket: Fix login. It fails. The key."]
    assert memory.revert(ticket)
    assert documents(projects, "acme") == []
    assert not memory.revert(ticket)


# Functions that name project and folder


def test_a_ticket_is_worked_on_with_the_functions_alone(tmp_path, monkeypatch):
    """The flow: retrieve at the start and at every turn, index at completion, delete when it is reverted."""
    monkeypatch.setenv("MEMORY_SAVE_DIR", str(tmp_path / "memories"))
    monkeypatch.setenv("TREERING_BACKGROUND", "0")
    title, description = "Login is slow", None

    def invoked(query):
        kwargs = project_memory.get_hipporag_kwargs()
        results = project_memory.retrieve(7, [query], tmp_path / "memories", num_to_retrieve=5, **kwargs)
        docs = [doc for result in results for doc in result["docs"]]
        return "Memories invoked:\n" + "\n".join(docs) if docs else ""

    assert invoked(f"{title}. {description or ''}") == ""
    doc = f"Ticket: {title}. {description or ''}. The session table had no index."
    report = project_memory.index(7, [doc], tmp_path / "memories", **project_memory.get_hipporag_kwargs())
    assert report.project_id == "7"
    assert invoked("Why is the login slow?\nThe session table is scanned") == f"Memories invoked:\n{doc}"
    assert project_memory.retrieve("7", ["login slow"])[0]["docs"] == [doc], "the folder is that of MEMORY_SAVE_DIR"
    assert project_memory.delete(7, [doc]).counts == {"deleted": 1}
    assert invoked("login slow") == ""


@pytest.mark.parametrize("folder", [None, ""])
def test_functions_without_a_folder_refuse(tmp_path, monkeypatch, folder):
    monkeypatch.delenv("MEMORY_SAVE_DIR", raising=False)
    monkeypatch.setenv("TREERING_DATA_DIR", str(tmp_path / "data"))
    monkeypatch.chdir(tmp_path)
    calls = (
        lambda: project_memory.index(7, [PAST], folder),
        lambda: project_memory.retrieve(7, ["login"], folder),
        lambda: project_memory.delete(7, [PAST], folder),
    )
    for call in calls:
        with pytest.raises(InvalidInput, match="base_save_dir"):
            call()
    assert list(tmp_path.iterdir()) == []


def test_project_id_may_be_a_number_or_uuid(projects):
    uuid = UUID("12345678-1234-5678-1234-567812345678")
    for project in (42, uuid):
        assert projects.index(project, [PAST]).project_id == str(project)
        assert projects.retrieve(str(project), ["slow login"])[0]["docs"] == [PAST]
        assert TicketMemory(project, projects).start(Ticket(title="Slow login")).startswith("Memories invoked:\n")


def test_a_project_that_has_nothing_yet_gives_nothing(projects):
    assert projects.retrieve("new", ["slow login"]) == [{"question": "slow login", "docs": [], "doc_scores": []}]
    with pytest.raises(InvalidInput, match="needs a language model"):
        projects.rag_qa("new", ["slow login"])


def test_default_is_five_documents(tmp_path, monkeypatch):
    monkeypatch.setenv("TREERING_BACKGROUND", "0")
    project_memory.index("acme", [f"{PAST} ({n})" for n in range(8)], tmp_path)
    (recalled,) = project_memory.retrieve("acme", ["slow login"], tmp_path)
    assert len(recalled["docs"]) == len(recalled["doc_scores"]) == 5


def test_the_environment_names_the_models(monkeypatch):
    for name in ("LLM_MODEL", "LLM_BASE_URL", "EMBEDDING_MODEL", "EMBEDDING_BASE_URL"):
        monkeypatch.delenv(f"MEMORY_{name}", raising=False)
    assert project_memory.get_hipporag_kwargs() == {"llm_model_name": None, "embedding_model_name": None}
    monkeypatch.setenv("MEMORY_LLM_MODEL", "qwen3:8b")
    monkeypatch.setenv("MEMORY_LLM_BASE_URL", "http://localhost:11434/v1")
    monkeypatch.setenv("MEMORY_EMBEDDING_MODEL", "nomic-embed-text")
    monkeypatch.setenv("MEMORY_EMBEDDING_BASE_URL", "http://localhost:11434/v1")
    assert project_memory.get_hipporag_kwargs() == {
        "llm_model_name": "qwen3:8b",
        "embedding_model_name": "nomic-embed-text",
        "llm_base_url": "http://localhost:11434/v1",
        "embedding_base_url": "http://localhost:11434/v1",
    }


def test_the_models_named_read_what_is_indexed_answer_and_embed(tmp_path, monkeypatch):
    monkeypatch.setenv("TREERING_BACKGROUND", "0")

    def answer(prompt):
        if "Read these excerpts" in prompt:
            return '{"readings": [{"number": 1, "triples": [["the login", "reads", "the session table"]]}]}'
        return '{"answer": "The session table.", "citations": [1]}'

    with endpoint(answer) as server:
        models = {
            "llm_model_name": "qwen3",
            "llm_base_url": server.url,
            "embedding_model_name": "nomic",
            "embedding_base_url": server.url,
        }
        report = project_memory.index("acme", [PAST], tmp_path, wait=True, **models)
        (answered,) = project_memory.rag_qa("acme", ["What made the login slow?"], tmp_path, **models)
    assert report.read_by_model.requests == 1
    assert report.read_by_model.failures == ()
    assert answered["answer"] == "The session table."
    asked = [path for path, _ in server.requests]
    assert asked.count("/v1/chat/completions") == 2
    assert asked.count("/v1/embeddings") >= 4, "to measure the model, for the document and for the question"
    with treering.open_projects(tmp_path, embedder=HashingEmbedder(), background=False) as projects:
        with projects.engine("acme") as engine:
            (source,) = engine.ledger.select(Selection(scope="/", types=("source",)))
        assert "session table" in json.dumps(source.model_dump(mode="json"))
        assert any("reads" in json.dumps(part.model_dump(mode="json")) for part in source.segments)


def test_what_the_model_may_use_to_read_is_bounded_and_what_it_cannot_read_is_kept_all_the_same(tmp_path):
    judge = Judge(turns=0)
    docs = [f"{PAST} ({n})" for n in range(12)]
    with treering.open_projects(tmp_path, background=False, embedder=HashingEmbedder(), model=judge) as projects:
        report = projects.index("acme", docs, budget=Budget(requests=2))
        again = projects.index("acme", docs, budget=Budget(requests=2))
    assert report.counts == {"created": 12}
    assert report.read_by_model.requests <= 2
    assert {failure.position for failure in report.read_by_model.failures} == set(range(12))
    assert again.counts == {"unchanged": 12}
    assert again.read_by_model.requests == 0, "known documents are not read again"


def test_a_text_that_is_given_twice_is_read_once(tmp_path):
    judge = Judge(turns=0)
    with treering.open_projects(tmp_path, background=False, embedder=HashingEmbedder(), model=judge) as projects:
        report = projects.index("acme", [PAST, PAST])
    assert report.counts == {"created": 1, "unchanged": 1}
    assert report.read_by_model.documents == 1
    assert {failure.position for failure in report.read_by_model.failures} == {0}


def test_concurrent_requests_of_a_project_are_both_stored(projects):
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda n: projects.index("acme", [f"{PAST} ({n})"]), range(12)))
    assert len(documents(projects, "acme")) == 12


def test_without_a_folder_for_memories_a_ticket_runs_as_before():
    script = Script([Assessment(complete=False, next_prompt="Begin"), Assessment(complete=True, summary="Fixed.")])
    result = supervised(None, script, Worker(lambda _: "ok"), Ticket(title="Fix login"))
    assert result.outcome == "completed"
