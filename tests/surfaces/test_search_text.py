import pytest

import treering
from treering.core.evidence import place_in_words
from treering.core.fencing import without_recalled
from treering.extensions.mcp.answers import text_of
from treering.retrieval.text.analysis import estimate_tokens
from treering.surfaces.search_text import cited_hits

FENCE_MARKS = "<<treering:cited"


@pytest.fixture(scope="module")
def space(tmp_path_factory):
    folder = tmp_path_factory.mktemp("shop")
    for name in ("orders", "carts", "bills"):
        (folder / f"{name}.py").write_text(f"def retry_{name}():\n    '''Retry {name} three times.'''\n    return 3\n")
    with treering.open(f"sqlite:{folder / 'space.db'}", background=False) as space:
        space.add(folder)
        space.decide("Retries are bounded", outcome="Retry three times", because=["orders.py:1-2"])
        yield space


def markers(text):
    return [line for line in text.splitlines() if line.startswith(FENCE_MARKS)]


def test_search_text_cites_lines_of_files_by_place(space):
    text = text_of(space.query("search", input={"text": "retry orders"}), max_tokens=2000)
    assert markers(text)[0].startswith('<<treering:cited [1] "orders.py#L1-L3"')
    assert "seg_" not in "".join(marker for marker in markers(text) if "orders.py" in marker)


def test_search_text_cites_knowledge_by_id(space):
    report = space.query("search", input={"text": "are retries bounded"})
    decision = next(hit.object_id for hit in report.hits if hit.kind == "decision")
    assert any(f"`{decision}` — decision" in marker for marker in markers(text_of(report, max_tokens=2000)))


@pytest.mark.parametrize(
    ("place", "words"),
    [
        (f"note:{'0a' * 20}: text (offset 0)", ""),
        (f"note:{'0a' * 20}: Birds (offset 40)", "Birds"),
        ("note:birds: text (offset 40)", "note:birds"),
        ("src/a.py#L1-L3", "src/a.py#L1-L3"),
        ("repo:https://example.org/a#docs/page.html: Setup (offset 16)", "docs/page.html: Setup"),
    ],
)
def test_place_in_words_omits_what_nobody_types(place, words):
    assert place_in_words(place) == words


def test_search_text_has_one_fence(space):
    text = text_of(space.query("search", input={"text": "retry"}), max_tokens=2000)
    assert without_recalled(text)[1] == 1
    assert len(markers(text)) > 1


@pytest.mark.parametrize("max_tokens", [120, 160, 400])
def test_search_text_names_results_that_do_not_fit(space, max_tokens):
    report = space.query("search", input={"text": "retry"})
    text = text_of(report, max_tokens=max_tokens)
    assert estimate_tokens(text) <= max_tokens
    assert without_recalled(text)[1] == 1
    shown = len(markers(text))
    assert ("Left out to fit" in text) == (shown < len([*cited_hits(report.hits, report.terms, max_line_chars=100)]))


def test_search_text_of_nothing_is_a_count(space):
    report = space.query("search", input={"text": "retry"}, options={"filter": {"kind": "procedure"}})
    assert text_of(report, max_tokens=500).startswith("0 results.")
