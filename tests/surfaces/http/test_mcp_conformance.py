"""The protocol's own conformance suite against the MCP server over HTTP.

`make conformance` installs it (npm, Node 22) and runs this; elsewhere it is skipped. Most of its scenarios ask for
tools, resources and prompts of the suite's own example server, or for features that a server may leave out. This one
says which it has when it is initialised; every scenario that is about those has to pass, and no other may.
"""

import json
import re
import shutil
import subprocess

import pytest
from rest_parts import running

SUITE = shutil.which("conformance")
SECONDS = 300

PASSED = {
    "dns-rebinding-protection",
    "ping",
    "server-initialize",
    "server-sse-multiple-streams",
    "tools-call-error",
    "tools-call-simple-text",
    "tools-list",
}
NOT_OFFERED = {
    "completions": {"completion-complete"},
    "logging": {"logging-set-level", "tools-call-with-logging"},
    "prompts": {
        "prompts-get-embedded-resource",
        "prompts-get-simple",
        "prompts-get-with-args",
        "prompts-get-with-image",
        "prompts-list",
    },
    "resources": {
        "resources-list",
        "resources-read-binary",
        "resources-read-text",
        "resources-subscribe",
        "resources-templates-read",
        "resources-unsubscribe",
    },
}
"""Scenarios by the capability that they need, which the server does not declare."""
OF_THE_EXAMPLE_SERVER = {
    "elicitation-sep1034-defaults",
    "elicitation-sep1330-enums",
    "json-schema-2020-12",
    "server-sse-polling",
    "tools-call-audio",
    "tools-call-elicitation",
    "tools-call-embedded-resource",
    "tools-call-image",
    "tools-call-mixed-content",
    "tools-call-sampling",
    "tools-call-with-progress",
}
"""Scenarios that call tools which only the suite's example server has."""

INITIALIZE = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "initialize",
    "params": {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "x", "version": "1"}},
}
ACCEPT = {"Accept": "application/json, text/event-stream"}


def test_the_server_declares_no_capability_that_it_is_not_held_to(tmp_path):
    with running(tmp_path) as client:
        told = client.post("/mcp", json=INITIALIZE, headers=ACCEPT).text
    message = json.loads(told[told.index("{") :].splitlines()[0])
    declared = set(message["result"]["capabilities"])
    assert "tools" in declared
    assert not declared & set(NOT_OFFERED)


@pytest.mark.skipif(SUITE is None, reason="the conformance suite is not installed: make conformance")
def test_every_scenario_about_what_the_server_offers_passes(tmp_path):
    with running(tmp_path) as client:
        url = str(client.base_url.join("/mcp"))
        command = [SUITE, "server", "--url", url, "--suite", "all", "--output-dir", tmp_path / "told"]
        subprocess.run(command, capture_output=True, timeout=SECONDS, check=False)
    outcomes = {}
    for file in (tmp_path / "told").glob("*/checks.json"):
        scenario = re.sub(r"^server-|-\d{4}-\d\d-\d\dT.*$", "", file.parent.name)
        outcomes[scenario] = {check["status"] for check in json.loads(file.read_text(encoding="utf-8"))}
    failed = {scenario for scenario, statuses in outcomes.items() if "FAILURE" in statuses}

    assert set(outcomes) - failed == PASSED
    assert failed == set.union(OF_THE_EXAMPLE_SERVER, *NOT_OFFERED.values())
