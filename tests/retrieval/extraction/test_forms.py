import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from treering.retrieval.extraction.names import entity_key, plain_form
from treering.retrieval.text.analysis import stem

NAMES = st.text(st.sampled_from("abesy éüñøßǺ日本ガй कि한."), max_size=20).map(entity_key)


@pytest.mark.parametrize(
    ("name", "form"),
    [
        ("müllers", "muller"),
        ("muller", "muller"),
        ("presidents", "presid"),
        ("president", "presid"),
        ("são paulo", "sao paulo"),
        ("1815", "1815"),
        ("c++", "c++"),
        ("", ""),
    ],
)
def test_near_equal_names_share_a_plain_form(name, form):
    assert plain_form(name) == form


@pytest.mark.parametrize("name", ["ガス", "йога", "हिन्दी", "한국", "ёлка", "άλφα", "日本"])
def test_marks_of_other_scripts_stay_for_there_they_tell_words_apart(name):
    assert plain_form(name) == name


def test_of_a_name_in_two_scripts_only_the_latin_accents_go():
    assert plain_form("café ガス") == "cafe ガス"


def test_combined_and_separate_marks_are_removed():
    assert plain_form("cafe\u0301") == plain_form("caf\u00e9") == "cafe"


@settings(max_examples=200)
@given(NAMES)
@example("müllers é")
def test_a_form_of_a_form_is_itself_wherever_stemming_is_steady(name):
    form = plain_form(name)
    steady = all(stem(word) == word for word in form.split())
    assert not steady or plain_form(form) == form


@settings(max_examples=100)
@given(NAMES)
def test_a_form_is_empty_only_for_what_has_no_letters(name):
    assert bool(plain_form(name)) == bool(name.strip())
