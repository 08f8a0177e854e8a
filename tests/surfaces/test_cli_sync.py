"""What `treering sync` prints, and the space that it creates for what others shared."""

import treering
from treering.system.settings import Settings


def test_sync_creates_the_space_of_a_colleague(stage, monkeypatch):
    monkeypatch.setenv("TREERING_BACKGROUND", "0")
    stage.write({"README.md": "# Acme\n\nAcme retries three times.\n", "team/.keep": ""})
    stage.done("add", "README.md", "--space", "ada")
    stage.done("decide", "Three retries", "--because", "README.md:3", "--space", "ada")
    sent = stage.done("sync", "./team", "--space", "ada").out
    assert sent.startswith("Sent ")
    assert sent.endswith("No other copies there yet.\n")

    received = stage.done("sync", "./team", "--space", "bob").out
    assert "Sent nothing new to " in received
    assert received.splitlines()[2].startswith("Received ")
    assert "Three retries" in stage.done("show", "three", "--space", "bob").out
    assert stage.done("sync", "./team", "--space", "bob").out.endswith("Nothing new received.\n")


def test_log_shows_a_merge_as_one_line(stage, monkeypatch):
    monkeypatch.setenv("TREERING_BACKGROUND", "0")
    stage.write({"team/.keep": ""})
    for name in ("ann", "ben"):
        for text in ("Retries are bounded", "Logs are plain"):
            stage.done("rule", text, "--space", name, "--actor", name)
        stage.done("sync", "./team", "--space", name)
    log = stage.done("log", "--space", "ben").out
    assert log.count("Merged 2 entries from ") == 1
    assert "Joined" not in log
    with treering.open(Settings.read().space_address("ben")) as space:
        assert str(space.log()).count("merged 2 entries from ") == 1


def test_failed_sync_leaves_no_space(stage):
    assert stage.run("sync", "nowhere", "--space", "bob").code == 2
    assert stage.run("log", "--space", "bob").code == 3


def test_sync_names_contested_statements_by_their_titles(stage, monkeypatch):
    monkeypatch.setenv("TREERING_BACKGROUND", "0")
    stage.write({"team/.keep": ""})
    for name, port in (("ann", 8080), ("ben", 9090)):
        stage.done("fact", f"port = {port}", "--of", "api", "--space", name, "--actor", name)
        received = stage.done("sync", "./team", "--space", name).out
    (contested,) = (line for line in received.splitlines() if line.startswith("Now contested: "))
    assert '"api: port = 8080"' in contested
    assert '"api: port = 9090"' in contested
    assert "know:" not in received


def test_sync_names_stale_statements_by_their_titles(stage, monkeypatch):
    monkeypatch.setenv("TREERING_BACKGROUND", "0")
    stage.write({"README.md": "# Acme\n\nAcme retries three times.\n", "team/.keep": ""})
    stage.done("add", "README.md", "--space", "ann")
    stage.done("decide", "Three retries", "--because", "README.md:3", "--space", "ann")
    for name in ("ann", "ben"):
        stage.done("sync", "./team", "--space", name)
    stage.write({"README.md": "# Acme\n\nAcme never tries again.\n"})
    stage.done("add", "README.md", "--space", "ann")
    stage.done("sync", "./team", "--space", "ann")
    received = stage.done("sync", "./team", "--space", "ben").out
    assert 'Now stale: "Three retries" (README.md:3 changed). See: treering lint' in received


def test_sync_reports_that_whole_conversations_are_sent(stage, monkeypatch):
    monkeypatch.setenv("TREERING_BACKGROUND", "0")
    stage.write({"team/.keep": ""})
    with treering.open(Settings.read().space_address("ada"), create=True, background=False) as space:
        space.discussions().open("suppliers").append([treering.Message(content="Flour is late.", role="user")])
    assert "They include 1 whole conversation, with all messages." in stage.done("sync", "./team", "--space", "ada").out
    assert "conversation" not in stage.done("sync", "./team", "--space", "ada").out


def test_sync_reports_decisions_that_differ_in_a_number(stage, monkeypatch):
    monkeypatch.setenv("TREERING_BACKGROUND", "0")
    stage.write({"team/.keep": ""})
    for name, limit in (("ann", 48), ("ben", 64)):
        stage.done("decide", f"For uploads use {limit} MB", "--space", name, "--actor", name)
        received = stage.done("sync", "./team", "--space", name).out
    assert "'For uploads use 48 MB'" in received
    assert "'For uploads use 64 MB' may contradict each other." in " ".join(received.split())
    brief = stage.done("brief", "--space", "ben").out
    assert brief.count("(contradicts ") == 2
    assert "contradict" not in stage.done("sync", "./team", "--space", "ben").out
