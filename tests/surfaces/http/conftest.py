import pytest
from rest_parts import running


@pytest.fixture
def client(tmp_path):
    """A client of a server with an empty space, that may read the files of a folder."""
    (tmp_path / "files").mkdir()
    with running(tmp_path, files=tmp_path / "files") as client:
        yield client
