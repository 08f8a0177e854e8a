"""The memory of projects, in a folder of the test."""

import memory_parts
import pytest


@pytest.fixture
def memory(tmp_path):
    """Projects written by a person, who may erase."""
    with memory_parts.open_projects(tmp_path / "projects", channel="user") as opened:
        yield opened
