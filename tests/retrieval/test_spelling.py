import pytest

from treering.retrieval.text.analysis import index_text


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("colour", "color"),
        ("coloured", "colored"),
        ("behaviours", "behavior"),
        ("normalise", "normalize"),
        ("serialisation", "serialization"),
        ("initialising", "initializing"),
        ("analysed", "analyzed"),
        ("catalogue", "catalog"),
        ("centred", "centered"),
        ("licence", "license"),
        ("indices", "index"),
        ("colourMap", "color_map"),
    ],
)
def test_two_spellings_of_a_word_are_one_term(one, other):
    assert index_text(one) == index_text(other)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("four", "for"),
        ("hour", "hor"),
        ("contour", "contor"),
        ("promise", "prom"),
        ("precision", "precise"),
        ("is", "iz"),
    ],
)
def test_words_that_only_look_alike_stay_apart(one, other):
    assert index_text(one) != index_text(other)
