"""What all tests share: no settings of whoever runs them, spaces that are closed, and what the gate leaves out."""

import os
from collections import defaultdict

import pytest
from hypothesis import HealthCheck, settings

# Before anything imports them: their asserts tell what was compared, as those of tests do.
pytest.register_assert_rewrite(
    "ledger_rules", "treering.testing.ledger_contract", "treering.testing.memory_client_contract"
)

import space_parts  # noqa: E402 - it imports some of them

# Read when the framework is imported: nothing of a test is sent anywhere.
os.environ["HAYSTACK_TELEMETRY_ENABLED"] = "False"

# No test fails because a machine is slow: neither an example nor the making of examples has a deadline.
settings.register_profile("full", deadline=None, suppress_health_check=[HealthCheck.too_slow])
GATE = settings(settings.get_profile("full"), max_examples=40, stateful_step_count=15)
"""How much the gate (`make check`) tries, whatever a test asks for. `--hypothesis-profile=full` tries all of it."""
GATE_HISTORIES = 10
"""The most examples of a state machine, each of which is a whole history."""
_COLLECTED = pytest.StashKey[set]()
"""The files with tests, before any is left out."""

settings.register_profile("gate", GATE)
settings.load_profile("gate")


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config, items):
    """Leave the gate a share of the large matrices, and cap the examples that a test asks for itself."""
    config.stash[_COLLECTED] = {item.path for item in items}
    _leave_samples(items)
    if config.getoption("--hypothesis-profile") in (None, "gate"):
        for item in items:
            _cap_examples(item)


def _leave_samples(items):
    """Of a test that is `sampled(n)`, keep n cases that are spread over all of them; mark the others `nightly`."""
    cases = defaultdict(list)
    for item in items:
        if mark := item.get_closest_marker("sampled"):
            cases[item.parent.nodeid, item.originalname, mark.args[0]].append(item)
    for (_, _, count), of_one in cases.items():
        kept = {number * len(of_one) // count for number in range(count)}
        for place, item in enumerate(of_one):
            if place not in kept:
                item.add_marker("nightly")


def _cap_examples(item):
    """Cap the examples of a test of the gate; what is nightly or torture keeps all that it asks for."""
    if item.get_closest_marker("nightly") or item.get_closest_marker("torture"):
        return
    function = getattr(item, "function", None)
    if asked := getattr(function, "_hypothesis_internal_use_settings", None):
        function._hypothesis_internal_use_settings = _capped(asked, GATE.max_examples)
    if isinstance(asked := getattr(item.cls, "settings", None), settings):  # of a state machine
        item.cls.settings = _capped(asked, GATE_HISTORIES)


def _capped(asked, examples):
    steps = min(asked.stateful_step_count, GATE.stateful_step_count)
    return settings(asked, max_examples=min(asked.max_examples, examples), stateful_step_count=steps)


@pytest.fixture
def collected_files(request):
    """The files with tests, of which `-m` may have left out all tests."""
    return request.config.stash[_COLLECTED]


@pytest.fixture(autouse=True)
def no_settings(monkeypatch, tmp_path_factory):
    for name in [name for name in os.environ if name.startswith("TREERING_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path_factory.getbasetemp() / "xdg"))


@pytest.fixture
def open_space():
    """Open spaces without a model, `:memory:` unless an address is given; close them after the test."""
    opened = []

    def open_one(address=":memory:", **options):
        space = space_parts.open_space(address, **options)
        opened.append(space)
        return space

    yield open_one
    for space in opened:
        space.close()


@pytest.fixture
def space(open_space):
    """A space in memory, written by an agent."""
    return open_space()
