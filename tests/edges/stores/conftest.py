import pytest

# The contract's asserts explain themselves like those of any test module.
pytest.register_assert_rewrite("treering.testing.ledger_contract")
