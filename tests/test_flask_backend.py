"""The example of a Flask backend: its routes, its lock, and an agent that recalls earlier tickets."""

from concurrent.futures import ThreadPoolExecutor
from threading import Barrier

import pytest

pytest.importorskip("flask", reason="Flask is not a dependency: pip install flask")

from examples.flask_backend import agent, memory
from examples.flask_backend.app import create_app

LESSON = "Set the timeout of the pool to 30 seconds; retries hid the error."


@pytest.fixture
def app(tmp_path):
    app = create_app()
    app.config["MEMORY_SAVE_DIR"] = str(tmp_path)
    return app


@pytest.fixture
def post(app):
    def post(action, **body):
        return app.test_client().post(f"/api/projects/acme-web/memory/{action}", json=body)

    return post


def test_routes_index_retrieve_and_delete(post):
    doc = "Sessions are stored in one SQLite file."
    assert post("index", docs=[doc]).get_json()["counts"] == {"created": 1}
    (found,) = post("retrieve", queries=["Where are sessions stored?"], num_to_retrieve=1).get_json()["results"]
    assert found["docs"] == [doc]
    assert post("delete", docs=[doc]).get_json()["counts"] == {"deleted": 1}
    assert post("retrieve", queries=["Where are sessions stored?"]).get_json()["results"][0]["docs"] == []


@pytest.mark.parametrize(
    ("action", "body"), [("index", {}), ("retrieve", {"queries": "text"}), ("delete", {"docs": 7})]
)
def test_invalid_request_is_a_client_error(post, action, body):
    answer = post(action, **body)
    assert answer.status_code == 400
    assert answer.get_json()["hint"]


def test_routes_without_a_folder_name_the_setting(app, post, monkeypatch):
    monkeypatch.delenv("MEMORY_SAVE_DIR", raising=False)
    app.config["MEMORY_SAVE_DIR"] = None
    assert "MEMORY_SAVE_DIR" in post("index", docs=["text"]).get_json()["error"]


def worked(app, ticket, response, summary):
    """Work on a ticket with one prompt; return what the middle and the coding agent were asked."""
    messages, prompts = [], []

    def assess(_system, message):
        messages.append(message)
        return {"complete": True, "summary": summary} if prompts else {"next_prompt": f"Please fix: {ticket.title}"}

    def send(prompt):
        prompts.append(prompt)
        return response

    with app.app_context():
        assert agent.process_ticket(ticket, assess, send) == summary
    return messages, prompts


def test_ticket_recalls_completed_ticket(app):
    first = agent.Ticket("acme-web", "Uploads time out", "Large uploads fail after 5 seconds")
    assert not any("Memories" in text for text in worked(app, first, "pool error", LESSON)[0])
    second = agent.Ticket("acme-web", "Downloads time out", "Large downloads fail")
    messages, prompts = worked(app, second, "timeout of the pool", "Done.")
    expected = f"Memories invoked:\nTicket: Uploads time out. Large uploads fail after 5 seconds. {LESSON}\n\n"
    assert all(text.startswith(expected) for text in messages)
    assert prompts == ["Please fix: Downloads time out"]


def test_ticket_without_or_with_broken_memory_continues(app, tmp_path):
    ticket = agent.Ticket("acme-web", "Uploads time out")
    (tmp_path / "file").write_text("")
    for folder in (None, str(tmp_path / "file")):
        app.config["MEMORY_SAVE_DIR"] = folder
        assert len(worked(app, ticket, "pool error", LESSON)[0]) == 2


def test_calls_of_one_project_do_not_overlap(tmp_path, monkeypatch):
    running, most = [], []
    both = Barrier(2)

    def slow(project_id, *_given):
        running.append(project_id)
        most.append(running.count(project_id))
        if project_id in {"one", "two"}:
            both.wait(timeout=60)  # two projects run side by side
        running.remove(project_id)

    monkeypatch.setattr(memory.project_memory, "index", slow)
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda name: memory.index(name, ["text"], str(tmp_path)), ["one", "two", *["same"] * 50]))
    assert max(most) == 1
