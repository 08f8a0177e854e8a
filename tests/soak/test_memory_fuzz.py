"""A small part of the fuzz of what a memory client is given as metadata."""

import pytest
from memory_fuzz import fuzz


@pytest.mark.parametrize("asynchronous", [True, False])
def test_metadata_of_any_kind_loses_no_memory_and_keeps_no_other_out(tmp_path, asynchronous):
    outcome = fuzz(80, 7, tmp_path, asynchronous=asynchronous, each=40)
    assert outcome.wrong == []
    assert outcome.stored > 50
