"""A blocking memory client in memory."""

import client_parts
import pytest

# The contract's asserts explain themselves like those of any test module.
pytest.register_assert_rewrite("treering.testing.memory_client_contract")


@pytest.fixture
def client():
    with client_parts.blocking() as opened:
        yield opened


@pytest.fixture(params=["sqlite", "in_memory"])
def configured(request, tmp_path):
    """A configuration of each backend."""
    return client_parts.config(backend=request.param, sqlite={"path": str(tmp_path / "memory.db")})
