"""What all tests share: an environment without settings of whoever runs them, and spaces that are closed again."""

import os

import pytest
from hypothesis import HealthCheck, settings

import space_parts

# Read when the framework is imported: nothing of a test is sent anywhere.
os.environ["HAYSTACK_TELEMETRY_ENABLED"] = "False"

# No test fails because a machine is slow: neither an example nor the making of examples has a deadline.
settings.register_profile("patient", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("patient")


@pytest.fixture(autouse=True)
def no_settings(monkeypatch):
    for name in [name for name in os.environ if name.startswith("TREERING_")]:
        monkeypatch.delenv(name)


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
