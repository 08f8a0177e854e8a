"""Whatever a command prints of what is stored, a terminal is not steered by it."""

import io
import json
import os
import re
import shutil
import subprocess
import sys
import threading
from contextlib import closing, contextmanager
from dataclasses import dataclass

import pytest
from test_cli_printing import STEERING, obeyed_in
from test_operations import commands

from space_parts import decide, note, open_space, task
from treering.core.policy import Policy
from treering.surfaces.cli import run
from treering.verbs.ingest.turns import Message

pty = pytest.importorskip("pty")

SAID = [{"role": "user", "content": f"My name is Ada {STEERING} and I like green tea."}] * 3
STEPS = [
    {"type": "StaticResponse", "title": STEERING, "content": f"a {STEERING} b"},
    {"type": "StaticResponse", "title": "last", "content": f"c {STEERING} d", "returnToUser": True},
]
TICKETS = [{"id": "12", "title": f"Fix {STEERING}", "description": STEERING}]
SCRIPT = [{"complete": True, "summary": f"Done {STEERING}"}]
STATE = f"# State\n\n- Ada likes {STEERING} tea\n"

PRINTED = {
    "add": ["add files", "add --note {hostile}", "add {hostile}"],
    "search": ["search {hostile}", "search green -v"],
    "ask": ["ask {hostile}"],
    "brief": ["brief"],
    "show": ["show {known}", "show {hostile}"],
    "log": ["log", "log -v", "log {hostile}", "log --since {hostile}"],
    "decide": ["decide {hostile} --why {hostile}", "decide x --because {hostile}"],
    "rule": ["rule {hostile} --for {hostile}"],
    "prefer": ["prefer {hostile}"],
    "fact": ["fact x={hostile} --of {hostile}", "fact {hostile}"],
    "task": ["task {hostile}"],
    "done": ["done {work} {hostile}", "done {hostile}"],
    "replace": ["replace {known} {hostile}"],
    "undo": ["task {hostile}", "undo -v", "undo {hostile}"],
    "backup": ["backup b.db"],
    "consolidate": ["consolidate", "consolidate --json", "consolidate --apply --keep-passages 0"],
    "crystallize": [
        "crystallize --kind preference --title {hostile} --statement {hostile}",
        "crystallize --mode promote {candidate}",
        "crystallize --mode supersede {known} --by {other}",
        "crystallize {work} --kind task --status resolved --resolution {hostile}",
    ],
    "discussion delete": ["discussion delete tea 0"],
    "discussion delete --erase": ["discussion delete tea 0 --erase --yes"],
    "discussion export": ["discussion export tea out"],
    "discussion import": ["discussion export tea out", "discussion import other out"],
    "discussion list": ["discussion list", "discussion list --json"],
    "discussion record": ["discussion record more chat.json"],
    "discussion search": ["discussion search tea green", "discussion search --all green"],
    "discussion show": ["discussion show tea", "discussion show tea --json"],
    "discussion state": ["discussion state tea", "discussion state tea --json"],
    "discussion state --edit": ["discussion state tea --edit state.md"],
    "discussion update": ["discussion update tea"],
    "erase": ["erase {source} --yes --reason {hostile}"],
    "export": ["export out"],
    "import": ["export out", "import out --space sqlite:copy.db"],
    "ingest": ["ingest --mode status", "ingest files", "ingest files --json", "ingest {hostile}"],
    "hook install": ["hook install {hostile}"],
    "hook run": ["hook run --json --space {hostile}"],
    "hook status": ["hook status {hostile}"],
    "hook uninstall": ["hook uninstall {hostile}"],
    "feedback give": ["feedback give {hostile} --right {source}", "feedback give x --right {hostile}"],
    "feedback status": ["feedback status", "feedback status --scope {hostile}"],
    "feedback off": ["feedback off", "feedback off --json"],
    "feedback on": ["feedback on"],
    "feedback erase": ["feedback erase"],
    "exam make": ["exam make --exam {hostile}"],
    "exam run": [
        "exam run --words --exam exam.yaml --no-keep",
        "exam run --words --exam exam.yaml --no-keep --json",
        "exam run --words --exam exam.yaml --no-keep --format markdown",
        "exam run --words --exam exam.yaml --no-keep --format junit --candidates",
        "exam run --exam {hostile}",
    ],
    "index drop": ["index use faiss:engine", "index drop"],
    "index rebuild": ["index use faiss:engine", "index rebuild"],
    "index status": ["index status", "index use faiss:engine", "index status", "index status --json"],
    "index use": ["index use faiss:{hostile}"],
    "init": ["init --space sqlite:new.db", "init"],
    "key create": ["key create ada --keys keys.json", "key create {hostile} --keys keys.json --json"],
    "key list": ["key create ada --keys keys.json", "key list --keys keys.json"],
    "key revoke": ["key revoke {hostile} --keys keys.json"],
    "lint": [
        *(f"lint {mode}" for mode in ("structure", "semantic", "repair", "reindex", "audit")),
        "lint audit --json",
    ],
    "diff": ["backup copy.db", "diff s.db copy.db", "diff s.db {hostile} --json"],
    "merge": ["backup copy.db", "merge copy.db", "merge {hostile} --json"],
    "sync": ["sync {hostile}", "sync {hostile} --json"],
    "move": ["move s.db copy.db", "move s.db {hostile} --json"],
    "connect": [
        "connect claude-code --dry-run",
        "connect {hostile}",
        "connect zed --print",
        "connect zed --dry-run --json",
    ],
    "disconnect": ["disconnect {hostile} --json"],
    "check": ["check --base {hostile}", "check --base {hostile} --json"],
    "session begin": ["session begin"],
    "session edit": ["session edit"],
    "session failure": ["session failure"],
    "session asked": ["session asked"],
    "session prompt": ["session prompt"],
    "session keep": ["session keep", "session keep --now {hostile}"],
    "session work": ["session work --for {hostile}"],
    "status": ["status", "status --json --writes 100"],
    "mongodb index": [
        "mongodb index {hostile}",
        "mongodb index mongodb://127.0.0.1:1/{hostile}?serverSelectionTimeoutMS=50",
    ],
    "mongodb status": ["mongodb status mongodb://{hostile}:x/y"],
    "postgres plan": ["postgres plan", "postgres plan --writer {hostile} --reader ada --tablespace {hostile} --citus"],
    "postgres work": ["postgres work --space sqlite:{hostile}.db"],
    "query": [
        "query green bees",
        "query --mode search green bees",
        "query --mode search green bees --json",
        "query --mode page {source}",
        "query --mode page {known}",
        "query --mode related {known}",
        "query --mode recent",
        "query --mode expand {source}",
    ],
    "query --proof": ["query green bees --proof bees.proof"],
    "revert": ["revert {applied} --reason {hostile}"],
    "review apply": ["review apply {waiting}"],
    "review propose": ["review propose", "review propose --dry-run --json"],
    "review list": ["review list", "review list --json"],
    "review reject": ["review reject {waiting} --reason {hostile}"],
    "review show": ["review show {waiting}", "review show {waiting} --json"],
    "supervise": ["supervise tickets.json --worker cat --script script.json --project acme"],
    "try": ["try {hostile}"],
    "unlock": ["unlock", "unlock --json", "unlock {hostile}"],
    "vectors": ["vectors"],
    "verify": [
        "query green bees --proof bees.proof",
        "verify bees.proof",
        "verify exam.yaml",
        "verify {hostile} --json",
    ],
    "version": ["version"],
    "watch": ["watch nowhere-{hostile}"],
    "wiki build": ["wiki build --to {hostile}", "wiki build --to {hostile} --json"],
    "wiki page": ["wiki page {hostile}", "wiki page --of {hostile} --json"],
    "wiki publish": ["wiki publish {hostile}"],
    "wiki status": ["wiki status --to {hostile}", "wiki status --to {hostile} --json"],
    "workflow check": ["workflow check flow.json"],
    "workflow examples": ["workflow examples", "workflow examples answer"],
    "workflow run": ["workflow run flow.json", "workflow run flow.json --discussion tea"],
}
"""By command, command lines that print what is stored or given. A word in braces stands for what `Place` names."""
BARS = re.compile(r"\x1b\[(?:\?25[lh]|1A|2K)|\r")
"""What a progress bar of ours moves the cursor with."""
SILENT = {"session work"}
SERVE = {"mcp", "serve", "wiki serve"}
"""Commands that speak a protocol instead of printing; their log is cleaned by `surfaces.python.logs`."""


@dataclass(frozen=True)
class Place:
    """A folder with a space whose every name and text would steer a terminal, and ids of what is in it."""

    folder: object
    names: dict

    def command_line(self, told):
        return [word.format(**self.names) for word in told.split()]


@pytest.fixture(scope="module")
def original(tmp_path_factory):
    folder = tmp_path_factory.mktemp("hostile")
    (folder / "files").mkdir()
    (folder / "files" / "tea.md").write_text(f"# Tea {STEERING}\n\nGreen {STEERING} bees.\n")
    for name, data in {"chat": SAID, "flow": STEPS, "tickets": TICKETS, "script": SCRIPT}.items():
        (folder / f"{name}.json").write_text(json.dumps(data))
    (folder / "state.md").write_text(STATE)
    asked = {"ask": f"Green {STEERING} bees?", "must": [f"tea{STEERING}.md", {"says": STEERING}], "id": STEERING}
    (folder / "exam.yaml").write_text(json.dumps([asked, {**asked, "id": "b", "must_not": [{"says": "green"}]}]))
    with open_space(f"sqlite:{folder / 's.db'}", channel="user", actor=f"ada {STEERING}") as space:
        names = fill(space)
    return Place(folder, names)


def fill(space):
    """Put hostile text into every kind of object; return ids."""
    quote = note(space, f"Green {STEERING} bees.", origin=f"note:{STEERING}", title=f"Bees {STEERING}")
    reason = {"reason": STEERING}
    known = decide(space, f"Bees {STEERING}", quote, summary=STEERING, options=reason)
    other = decide(space, f"Other {STEERING}", quote, options=reason)
    candidate = decide(space, f"Candidate {STEERING}", evidence_refs=[quote])
    work = task(space, f"Look {STEERING}", links=[{"type": "about", "target": known}])
    discussion = space.discussions().open("tea")
    discussion.record([Message(**one) for one in SAID])
    discussion.edit_state(STATE)
    applied = next(one.id for one in space.engine.ledger.patches(limit=100) if work in {e.target for e in one.effects})
    space.engine.ledger.change_policy(Policy(direct_channels=("user",)), by=space.engine.author, reason=STEERING)
    given = {"kind": "preference", "title": f"Tabs {STEERING}", "payload": {"statement": STEERING}}
    waiting = space.with_actor("bot", channel="agent").crystallize("knowledge", input=given, options=reason).ids[0]
    ids = {"known": known, "other": other, "candidate": candidate, "work": work, "source": quote["source_id"]}
    return {**ids, "applied": applied, "waiting": waiting, "hostile": STEERING.replace(" ", "_")}


@pytest.fixture
def place(original, tmp_path, monkeypatch):
    folder = tmp_path / "work"
    shutil.copytree(original.folder, folder)
    monkeypatch.chdir(folder)
    settings = {"SPACE": "sqlite:s.db", "BACKGROUND": "0", "DATA_DIR": str(tmp_path / "data")}
    for name, value in settings.items():
        monkeypatch.setenv(f"TREERING_{name}", value)
    return Place(folder, original.names)


@contextmanager
def terminal(monkeypatch):
    """Put a pseudo-terminal in the place of standard output and error; yield what collects what it gets."""
    ours, theirs = pty.openpty()
    got = bytearray()

    def collect():
        try:
            while part := os.read(ours, 65_536):
                got.extend(part)
        except OSError:  # Linux says so at the end
            pass

    reading = threading.Thread(target=collect)
    reading.start()
    with closing(os.fdopen(theirs, "w", encoding="utf-8")) as stream, monkeypatch.context() as patch:
        patch.setattr(sys, "stdout", stream)
        patch.setattr(sys, "stderr", stream)
        patch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(), encoding="utf-8"))
        yield got
    reading.join(60)
    os.close(ours)


def test_every_command_is_tried_with_hostile_content():
    tried = {*PRINTED, *SERVE}
    assert commands() - tried == set(), "Give each command a line in PRINTED; most need only their name."
    assert tried - commands() == set(), "Remove the names of former commands."


@pytest.mark.sampled(14)
@pytest.mark.parametrize("command", PRINTED)
def test_what_a_command_prints_of_hostile_content_steers_no_terminal(place, monkeypatch, command):
    for told in PRINTED[command]:
        with terminal(monkeypatch) as got:
            code = run(place.command_line(told))
        said = got.decode()
        assert code in {0, 1} or "{hostile}" in told, said
        assert said or command in SILENT
        assert not obeyed_in(BARS.sub("", said)), told


OTHERS = """
import logging, sys, threading, warnings
import treering.surfaces.cli as cli
from treering.surfaces.cli import commands

def fail(text):
    raise RuntimeError(text)

def work(*_, **__):
    text = {text!r}
    failing = threading.Thread(target=fail, args=(text,))
    failing.start()
    failing.join()
    warnings.warn(text)
    logging.getLogger("other").warning("%s", text)
    print(text)
    print(text, file=sys.stderr)
    return 0

commands.command_line = lambda first: work
cli.main(["query", "x"])
"""


def test_what_other_code_prints_steers_no_terminal(tmp_path):
    ours, theirs = pty.openpty()
    command = [sys.executable, "-c", OTHERS.format(text=STEERING)]
    done = subprocess.Popen(command, cwd=tmp_path, stdout=theirs, stderr=theirs)
    os.close(theirs)
    got = bytearray()
    try:
        while part := os.read(ours, 65_536):
            got.extend(part)
    except OSError:  # Linux says so at the end
        pass
    os.close(ours)
    assert done.wait(60) == 0
    said = got.decode()
    assert said.count("\\x1b]0;owned\\x07") == 5
    assert not obeyed_in(said)
