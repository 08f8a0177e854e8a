"""Each part can be taken out, and another package can bring one."""

import json
import os
import re
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Any

import pytest

from treering.registry import EXTENSIONS

HERE = Path(__file__).parent
COMMANDS = {
    "sharing": {"move", "export", "import", "diff", "merge", "sync", "verify"},
    "projects": {"supervise"},
    "discussions": {"discussion"},
    "client": set(),
    "wiki": {"wiki", "mongodb"},
    "workflows": {"workflow"},
    "exams": {"exam"},
    "consolidation": {"consolidate"},
    "trial": {"try"},
    "coding_agents": {"connect", "disconnect", "session"},
}
"""The commands of each part, as `treering --help` names them."""
GO_WITH = {
    "statements": {"projects", "discussions", "workflows", "client", "wiki"},
    "documents": {"conversations", "discussions", "workflows", "coding_agents", "projects", "exams"},
    "conversations": {"discussions", "workflows", "coding_agents"},
    "discussions": {"workflows"},
    "encoder": {"client", "wiki", "discussions", "workflows", "projects"},
    "engines": {"client", "wiki"},
    "records": {"checks"},
    "client": {"wiki"},
    "resident": {"coding_agents"},
}
"""Extensions that need another one: workflows run in discussions, and wikis are stored as records of the client."""
USED_BY_THE_PROGRAM = {"code", "mcp", "server"}
"""Extensions that `without_part.py` cannot do without: it ingests a repository, and asks a server."""
USES = {
    "sharing": ["sync", "export"],
    "code": ["hook install", "hook install --sync", "query --proof"],
    "projects": ["supervise"],
    "discussions": ["discussion record", "discussion search"],
    "wiki": ["wiki build", "wiki status"],
    "workflows": ["workflow run", "workflow run on messages"],
    "exams": ["exam run"],
    "coding_agents": ["connect", "session keep"],
}
"""What each part is asked for in `without_part`."""
WITHOUT_SHARING = {
    "hook install --sync": "Hooks that sync need the extension 'sharing', which is missing.",
    "query --proof": "This needs the extension 'sharing', which is missing.",
}
"""The errors of options of other commands that need the extension."""
MENU = {"projects": {"Projects"}, "discussions": {"Discussions"}, "wiki": {"Wiki"}}
ROUTES = {"projects": "/api/projects/{project_id}/memory/", "discussions": "/v1/chat/completions"}


def ran(program: str, *arguments: str, folder: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run a program of this folder to its end."""
    command = [sys.executable, str(HERE / program), *arguments]
    return subprocess.run(
        command, cwd=folder, capture_output=True, text=True, check=False, env={**os.environ, **environment}
    )


@pytest.fixture(scope="module", params=sorted({*EXTENSIONS.built_in} - USED_BY_THE_PROGRAM))
def without(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[str, dict[str, Any]]:
    """The name of a part, and what was seen where all of Treering was used without it, in one process."""
    folder = tmp_path_factory.mktemp("without")
    (folder / "shared").mkdir()
    done = ran("without_part.py", request.param, str(folder), folder=folder)
    assert done.returncode == 0, done.stderr
    return request.param, json.loads(done.stdout.splitlines()[-1])


def listed(told: dict[str, Any]) -> set[str]:
    """Return the commands that a help names."""
    return {word.strip(",") for line in told["out"].splitlines() if line.startswith("  ") for word in line.split()}


@pytest.mark.sampled(2)
def test_without_a_part_the_help_lacks_its_commands_alone(without):
    part, seen = without
    gone = {part, *GO_WITH.get(part, ())}
    assert set(seen["parts"]) == set(EXTENSIONS.built_in) - gone
    assert seen["help"]["code"] == 0
    for name, commands in COMMANDS.items():
        assert commands & listed(seen["help"]) == (set() if name in gone else commands)


def test_without_a_part_the_four_verbs_work(without):
    _, seen = without
    for command in ("init", "ingest", "query", "crystallize", "lint"):
        assert seen[command]["code"] == 0, (command, seen[command])
    assert "acme.py" in seen["query"]["out"]
    assert seen["tools"] == [f"wiki.{verb}" for verb in seen["verbs"]]
    assert seen["names"] > 50


def test_without_a_part_the_server_answers_and_lacks_its_pages_and_routes(without):
    part, seen = without
    gone = {part, *GO_WITH.get(part, ())}
    http = seen["http"]
    assert http["health"] == http["query"][0] == http["home"][0] == http["openapi"][0] == 200
    assert "acme.py" in http["query"][1]
    for name, titles in MENU.items():
        for title in titles:
            assert (f">{title}</a>" in http["home"][1]) == (name not in gone), title
    for name, route in ROUTES.items():
        assert any(path.startswith(route) for path in http["openapi"][1]) == (name not in gone), route


def test_without_a_part_none_of_the_rest_asks_for_its_modules(without):
    _, seen = without
    assert seen["asked_for_the_part"] == []


def test_without_a_part_the_commands_of_the_others_work(without):
    part, seen = without
    gone = {part, *GO_WITH.get(part, ())}
    for name, uses in USES.items():
        for use in uses:
            told = seen["commands"][use]
            if name in gone:
                assert told["code"] == 2, (use, told)
                assert "No such command" in told["err"]
            elif part == "sharing" and use in WITHOUT_SHARING:
                assert (told["code"], told["err"]) == (2, f"error: {WITHOUT_SHARING[use]}\n")
            elif "discussions" in {part, *gone} and use == "session keep":
                assert (told["code"], told["err"]) == (
                    2,
                    "error: Transcripts are stored as discussions, but the part 'discussions' is missing.\n",
                )
            else:
                assert told["code"] == 0, (use, told)
    assert seen["client"] == ("client" not in gone)


# A part of another package: what pip installs, and what it brings.

BEES = """
import typer

from treering.registry import Extension
from treering.surfaces.cli.help import Command, CommandHelp

PART = Extension(
    "bees",
    help="acme_bees:HELP",
    commands=("acme_bees:add_commands",),
    operations="acme_bees:OPERATIONS",
    pages="acme_bees:PAGES",
    http_routes="acme_bees:serve",
    lint_rules="acme_bees:LINT_RULES",
    node_types="acme_bees:NODE_TYPES",
    named_views="acme_bees:hive_named",
    modes={"lint bees": "acme_bees:COUNT_BEES", "lint audit": "acme_bees:COUNT_BEES", "swarm": "acme_bees:NONE"},
)
HELP = CommandHelp(
    groups={"Bees": ("hive",), "Begin": ("wiki",)},
    examples={"hive feed": (("sugar", "treering hive feed"),)},
)
NEEDS_WHAT_IS_NOWHERE = Extension("lonely", needs=("a hive",), commands=("acme_bees:missing",))


def add_commands(app):
    for name in ("hum", "wiki", "lint"):
        app.command(name, help="Hum.")(hum)
    hive = typer.Typer(name="hive", help="Keep bees.")
    hive.command("count")(hum)
    hive.command("feed", cls=Command)(hum)
    app.add_typer(hive)
    review = typer.Typer(name="review")
    review.command("apply", help="Hum.")(hum)
    review.command("hum", help="Hum.")(hum)
    app.add_typer(review)


def hum(times: int = 1):
    print("bzz " * times)


def __getattr__(name):
    # As parts do it: what a command line does not need is imported when it is asked for.
    import acme_bees_more

    return getattr(acme_bees_more, name)
"""
MORE = """
from starlette.responses import JSONResponse

from treering.core.objects import Source
from treering.extensions.workflows.definition import NodeSettings
from treering.extensions.workflows.registry import NodeType
from treering.ports.ledger import Ledger
from treering.extensions.server.callers import RouteAccess
from treering.extensions.server.contract import Route
from treering.extensions.server.served import ServedPart
from treering.extensions.server.web.view import WebPage
from treering.extensions.server.web.view import Rendered
from treering.verbs.envelope import Mode, Operation, Report, Value
from treering.verbs.lint.survey import Finding, LintRule
from treering.verbs.envelope import READS
from treering.testing import NamedView


class Nothing(Value):
    pass


class Hive(Value):
    bees: int


class Counted(Report):
    bees: int

    def text_lines(self):
        yield f"{self.bees} bees"


def count(call, given, options):
    return Hive(bees=3)


def count_bees(call, given, options):
    return Counted(verb="lint", mode="bees", scope=call.scope, bees=3)


async def answer():
    return JSONResponse({"bees": 3})


def serve(context, chosen):
    access = RouteAccess("anybody", READS, whole_space=False)
    return ServedPart(
        routes=[
            Route("GET", "/v1/bees", "bees", "Count bees.", answer, access, gives=(Hive,)),
            Route("POST", "/v1/bees", "keep_bees", "Keep bees.", answer, access, gives=(Hive,), takes=(Hive,)),
        ]
    )


def unnamed(seen):
    for source in seen.current(Source):
        yield Finding(rule="no-bees", severity="info", ids=(source.id,), explanation="It names no bee.")


def hive_named(call, name, options):
    return NamedView("hive", name, "Three bees.") if name == "Skep" else [one for one in ["Skep"] if "kep" in name]


OPERATIONS = (Operation("bees count", "Count bees.", Nothing, Nothing, Hive, count, rights=READS),)
COUNT_BEES = Mode("bees", "Count bees.", Nothing, Nothing, Counted, count_bees, rights=READS)
PAGES = (
    WebPage("/bees", lambda view: Rendered("acme_bees_pages:bees.html", {"bees": 3}), "Bees"),
    WebPage("/wiki", lambda view: Rendered("acme_bees_pages:bees.html", {"bees": 4}), "Wiki"),
    WebPage("/graph", lambda view: Rendered("acme_bees_pages:bees.html", {"bees": 5}), "Graph of bees"),
)
LINT_RULES = (LintRule("no-bees", "semantic", unnamed), LintRule("cycle", "structure", unnamed))
NODE_TYPES = (
    NodeType("Hum", "hums", NodeSettings, lambda settings, step: "bzz"),
    NodeType("StaticResponse", "hums", NodeSettings, lambda settings, step: "bzz"),
)
"""
USE_BEES = """
import json, os, sys
from pathlib import Path

from treering.surfaces.cli import run

told = {"light": "acme_bees_more" not in sys.modules, "codes": []}
for line in sys.argv[1:]:
    print("$", line, flush=True)
    told["codes"].append(run(line.split()))
    print(flush=True)

from starlette.testclient import TestClient

from treering.extensions.server.app import Serving, build_app
from treering.surfaces.python.space import open_space

address = f"sqlite:{Path.cwd() / '.treering' / 'treering.db'}"
with open_space(address) as space:
    told["operation"] = space.perform("bees count").bees
with TestClient(build_app(Serving(space=address, background=False)), base_url="http://127.0.0.1") as client:
    told["route"] = client.get("/v1/bees").json()
    told["described"] = [*client.get("/openapi.json").json()["paths"]["/v1/bees"]]
    told["page"], told["home"] = client.get("/web/bees").text, client.get("/").text
    told["wiki"], told["graph"] = client.get("/web/wiki").text, client.get("/web/graph").text
print(json.dumps(told))
"""


@pytest.fixture(scope="module")
def bees(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, dict[str, Any], str]:
    """What is printed where the part of another package is used, what was told, and what was warned of."""
    folder = tmp_path_factory.mktemp("bees")
    info = folder / "packages" / "acme_bees-1.0.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: acme-bees\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(
        "[treering.parts]\nbees = acme_bees:PART\nlonely = acme_bees:NEEDS_WHAT_IS_NOWHERE\n"
        "broken = acme_wasps:PART\nwiki = acme_bees:PART\n"
    )
    (info.parent / "acme_bees.py").write_text(BEES)
    (info.parent / "acme_bees_more.py").write_text(MORE)
    pages = info.parent / "acme_bees_pages"
    pages.mkdir()
    (pages / "__init__.py").touch()
    (pages / "bees.html").write_text('{% extends "base.html" %}{% block body %}<p>{{ bees }} bees</p>{% endblock %}')
    (folder / "use_bees.py").write_text(USE_BEES)
    (folder / "hum.yaml").write_text("- type: Hum\n")
    (folder / "note.md").write_text("# Honey\n\nIt is sweet.\n")
    lines = [
        *("--help", "hum --times 2", "hive count", "init", "ingest note.md", "lint"),
        *("lint semantic --rule no-bees", "lint structure --rule cycle", "workflow run hum.yaml", "wiki --help"),
        *("show Skep", "show Skepp"),
        *("hive feed --help", "lint bees", "lint audit", "review hum"),
    ]
    paths = {"PYTHONPATH": str(info.parent), "TREERING_BACKGROUND": "0", "TREERING_DATA_DIR": str(folder / "data")}
    done = ran(str(folder / "use_bees.py"), *lines, folder=folder, **paths)
    assert done.returncode == 0, done.stderr
    printed, _, told = done.stdout.rstrip().rpartition("\n")
    return printed, json.loads(told), done.stderr


def test_a_part_of_another_package_shows_what_it_knows_by_a_name(bees):
    printed, _, warned = bees
    assert "Skep  (hive)" in said(printed, "show Skep")
    assert "Three bees." in said(printed, "show Skep")
    assert 'Names like it: "Skep".' in warned


def said(printed: str, line: str) -> str:
    """Return what a command printed."""
    return printed.partition(f"$ {line}\n")[2].partition("\n$ ")[0]


def test_a_part_of_another_package_brings_commands_without_loading_the_rest_of_it(bees):
    printed, told, _ = bees
    assert told["light"]
    assert told["codes"] == [*[0] * 11, 3, 0, 0, 0, 0]  # `Skepp` is no name
    assert said(printed, "hum --times 2").strip() == "bzz bzz"
    assert re.search(r"\n  Other commands  .*\bhum\b", said(printed, "--help"))
    assert re.search(r"\n  Bees  .*\bhive\b", said(printed, "--help"))
    assert said(printed, "hive count").strip() == "bzz"
    assert said(printed, "review hum").strip() == "bzz"


def test_a_part_of_another_package_tells_of_its_commands_in_the_help_and_of_no_others(bees):
    printed, _, _ = bees
    helped = said(printed, "--help")
    assert re.search(r"\n  Bees  .*\bhive\b", helped)
    assert re.search(r"\n  Wikis, conversations, tickets  .*\bwiki\b", helped)
    assert said(printed, "hive feed --help").rstrip().endswith("Examples:\n  # sugar\n  treering hive feed")


def test_a_part_of_another_package_brings_an_operation_a_route_and_a_page(bees):
    _, told, _ = bees
    assert told["operation"] == 3
    assert told["route"] == {"bees": 3}
    assert told["described"] == ["get", "post"]
    assert "<p>3 bees</p>" in told["page"]
    assert 'href="/web/bees">Bees</a>' in told["home"]


def test_a_part_of_another_package_adds_a_mode_to_a_verb(bees):
    printed, _, _ = bees
    assert said(printed, "lint bees").strip() == "3 bees"


def test_a_part_of_another_package_brings_a_lint_rule_and_a_node_type(bees):
    printed, _, _ = bees
    assert "It names no bee." in said(printed, "lint")
    assert "It names no bee." in said(printed, "lint semantic --rule no-bees")
    assert said(printed, "workflow run hum.yaml").startswith("bzz")


def test_what_a_part_brings_under_a_name_that_is_taken_is_omitted_with_a_warning(bees):
    printed, told, warned = bees
    assert "Hum." not in said(printed, "wiki --help")
    assert "It names no bee." not in said(printed, "lint structure --rule cycle")
    assert "<p>4 bees</p>" not in told["wiki"]
    assert "<p>5 bees</p>" not in told["graph"]
    assert told["home"].count(">Wiki</a>") == 1
    assert "Graph of bees" not in told["home"]
    assert "The audit log verifies" in printed
    assert "The mode 'lint audit' of the extension bees is ignored: that name is already taken." in warned
    assert "The mode 'swarm' of the extension bees is ignored: it needs a verb" in warned
    for name in ("wiki", "lint", "review apply"):
        assert f"The command '{name}' of the extension bees is ignored: that name is already taken." in warned
    for name, what in (
        ("/wiki", "pages"),
        ("/graph", "pages"),
        ("cycle", "lint_rules"),
        ("StaticResponse", "node_types"),
    ):
        assert f"'{name}' of {what} of the extension bees is ignored: that name is already taken." in warned


def test_a_part_that_cannot_be_loaded_or_lacks_what_it_needs_is_omitted(bees):
    printed, _, warned = bees
    assert "The extension broken cannot be used: No module named 'acme_wasps'." in warned
    assert "lonely" not in printed


def test_a_part_that_is_in_an_archive_is_found(tmp_path):
    with zipfile.ZipFile(tmp_path / "packages.zip", "w") as archive:
        archive.writestr("acme_owls-1.0.dist-info/METADATA", "Metadata-Version: 2.1\nName: acme-owls\nVersion: 1.0\n")
        archive.writestr("acme_owls-1.0.dist-info/entry_points.txt", "[treering.parts]\nowls = acme_owls:PART\n")
        archive.writestr("acme_owls.py", 'from treering.registry import Extension\n\nPART = Extension("owls")\n')
    (tmp_path / "use_owls.py").write_text(
        "from treering.registry import EXTENSIONS\n\nprint(EXTENSIONS['owls'].name)\n"
    )
    done = ran(str(tmp_path / "use_owls.py"), folder=tmp_path, PYTHONPATH=str(tmp_path / "packages.zip"))
    assert done.stdout == "owls\n", done.stderr
