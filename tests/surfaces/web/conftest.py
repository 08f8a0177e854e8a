import sys
from pathlib import Path

import pytest

sys.path.append(str(Path(__file__).parent.parent / "http"))

from rest_parts import running
from web_parts import HOSTILE, fill


@pytest.fixture(scope="session")
def site(tmp_path_factory):
    """Serve a space that has something on every page; return a client and ids by what they are."""
    folder = tmp_path_factory.mktemp("site")
    ids = fill(f"sqlite:{folder / 'space.db'}")
    with running(folder, allow=frozenset({"review"})) as client:
        client.post("/api/projects/acme/memory/index", json={"docs": ["Kept for acme."]}).raise_for_status()
        yield client, ids


@pytest.fixture(scope="session")
def hostile_site(tmp_path_factory):
    """Serve a space in which every text holds markup."""
    folder = tmp_path_factory.mktemp("hostile")
    ids = fill(f"sqlite:{folder / 'space.db'}", HOSTILE)
    with running(folder) as client:
        yield client, ids
