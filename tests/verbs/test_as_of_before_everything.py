"""A search at a time before the first entry."""

import treering
from treering.testing import HashingEmbedder


def test_search_before_the_first_entry_warns_that_nothing_was_recorded():
    with treering.open(":memory:", background=False, embedder=HashingEmbedder()) as space:
        space.ingest("source", input={"items": [{"text": "The lamp is red.", "origin": "note:lamp"}]})
        empty = space.query("search", input={"text": "lamp"}, options={"as_of": "2001-01-01"})
        (hit,) = space.search("lamp")
    assert any(one.startswith("Nothing was recorded by then") for one in empty.warnings)
    assert (hit.note, hit.superseded_by, "superseded" in hit.flags) == ("", "", False)
