import re
from pathlib import Path

import pytest

from treering.retrieval import tuning
from treering.retrieval.search import fusion
from treering.retrieval.search.chance import SIGNALS
from treering.retrieval.search.question import DATE, ROLE, SPEAKER
from treering.retrieval.tuning import TUNING, read_tuning

FILE = Path(tuning.__file__).with_name("tuning.toml")
TEXT = FILE.read_text(encoding="utf-8")
LINES = TEXT.splitlines()
KEYS = [number for number, line in enumerate(LINES) if re.match(r"\w+ = ", line)]
ARMS = {
    *(fusion.VECTORS, fusion.QUICK, fusion.WORDS, fusion.NAMES, fusion.PLACES),
    *(fusion.WALKED, fusion.BRIDGED, fusion.TITLE_MATCH, fusion.NAMED),
}


def groups_in(group, name=""):
    yield name, group
    for key, value in group._asdict().items():
        if hasattr(value, "_fields"):
            yield from groups_in(value, f"{name}.{key}".lstrip("."))


GROUPS = dict(groups_in(TUNING))


def is_weight(number):
    """Whether a number is in a table of weights by name, which may leave names out."""
    table = next(line for line in reversed(LINES[:number]) if line.startswith("["))
    return table.strip("[]") not in GROUPS


def test_every_number_has_a_comment():
    assert [LINES[number] for number in KEYS if not LINES[number - 1].startswith("# ")] == []


@pytest.mark.parametrize("name", [name for name in GROUPS if name])
def test_numbers_have_the_types_of_their_fields(name):
    group = GROUPS[name]
    for key, kind in type(group).__annotations__.items():
        if isinstance(kind, type) and not hasattr(kind, "_fields"):
            assert type(getattr(group, key)) is kind, f"{name}.{key}"


@pytest.mark.parametrize("table", ["fusion", "chance"])
def test_an_unknown_number_is_refused_by_name(table):
    with pytest.raises(TypeError, match="misspelled"):
        read_tuning(TEXT.replace(f"[{table}]\n", f"[{table}]\nmisspelled = 1\n", 1))


def test_an_unknown_table_is_refused_by_name():
    with pytest.raises(TypeError, match="misspelled"):
        read_tuning(f"{TEXT}\n[misspelled]\nlimit = 1\n")


@pytest.mark.parametrize("number", [number for number in KEYS if not is_weight(number)])
def test_a_missing_number_is_refused_by_name(number):
    name = LINES[number].partition(" ")[0]
    with pytest.raises(TypeError, match=f"'{name}'"):
        read_tuning("\n".join(line for at, line in enumerate(LINES) if at != number))


def test_weights_are_of_arms_and_clues_that_exist():
    for name, weights in TUNING.fusion._asdict().items():
        if name.endswith("_weights"):
            assert weights.keys() <= ARMS
    assert TUNING.clues.weights.keys() == {SPEAKER, DATE, ROLE}


@pytest.mark.parametrize("table", ["prose", "talk", "prose_by_words", "talk_by_words"])
def test_chance_weighs_signals_that_exist(table):
    assert getattr(TUNING.chance, table).keys() <= {*SIGNALS, "constant"}
