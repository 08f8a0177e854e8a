"""The protocol's own conformance suite against the MCP server over HTTP, for each revision of the specification.

`make conformance` installs it (npm, Node 22) and runs this; elsewhere it is skipped. Most of its scenarios need tools,
resources and prompts of the suite's own example server, or features that a server may leave out. Every scenario about
a feature that this server declares has to pass, and no other may.
"""

import json
import re
import shutil
import subprocess

import pytest
from rest_parts import running

SUITE = shutil.which("conformance")
SECONDS = 300

ALWAYS = {
    "dns-rebinding-protection",
    "server-sse-multiple-streams",
    "tools-call-error",
    "tools-call-simple-text",
    "tools-list",
}
PASSED = {
    "2025-11-25": {*ALWAYS, "ping", "server-initialize", "server-session-lifecycle"},
    "2026-07-28": {
        *ALWAYS,
        "http-header-validation",
        "input-required-result-ignore-extra-params",
        "input-required-result-missing-input-response",
        "input-required-result-unsupported-methods",
        "input-required-result-validate-input",
        "sep-2164-resource-not-found",
        "tasks-status-notifications",
    },
}
"""Scenarios that pass, by revision."""
NOT_OFFERED = {
    "completions": "completion-",
    "logging": "logging-|tools-call-with-logging",
    "prompts": "prompts-",
    "resources": "resources-",
    "tasks": "tasks-",
}
"""Names of scenarios by the capability that they need, which the server does not declare."""
OF_THE_EXAMPLE_SERVER = (
    "elicitation-|input-required-result-|json-schema-2020-12|server-sse-polling|http-custom-header-server-validation"
    "|tools-call-(audio|elicitation|embedded-resource|image|mixed-content|sampling|with-progress)"
)
"""Names of scenarios that call tools which only the suite's example server has."""
IN_PART = {
    "caching": {
        "sep-2549-prompts-list-caching-hints",
        "sep-2549-resources-list-caching-hints",
        "sep-2549-resources-templates-list-caching-hints",
    },
    "server-stateless": {"sep-2575-missing-capability-http-400", "sep-2575-server-rejects-undeclared-capability"},
}
"""Checks that fail for these reasons in scenarios whose other checks pass."""

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
@pytest.mark.parametrize("revision", PASSED)
def test_every_scenario_about_what_the_server_offers_passes(tmp_path, revision):
    with running(tmp_path) as client:
        url = str(client.base_url.join("/mcp"))
        command = [SUITE, "server", "--url", url, "--requirements", revision, "--output-dir", tmp_path / "results"]
        subprocess.run(command, capture_output=True, timeout=SECONDS, check=False)
    failures = {}
    for file in (tmp_path / "results").glob("*/checks.json"):
        scenario = re.sub(r"^server-|-\d{4}-\d\d-\d\dT.*$", "", file.parent.name)
        checks = json.loads(file.read_text(encoding="utf-8"))
        failures[scenario] = {check["id"] for check in checks if check["status"] == "FAILURE"}
    unsupported = re.compile("|".join([OF_THE_EXAMPLE_SERVER, *NOT_OFFERED.values()]))

    assert {scenario for scenario, failed in failures.items() if not failed} == PASSED[revision]
    others = {name: failed for name, failed in failures.items() if failed and not unsupported.match(name)}
    assert others == {name: IN_PART[name] for name in others}
