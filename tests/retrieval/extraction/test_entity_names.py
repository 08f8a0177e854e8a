import unicodedata

from hypothesis import example, given, settings
from hypothesis import strategies as st

from treering.retrieval.extraction.names import bare_title, entity_key

ANY_NAME = st.text(st.characters(), max_size=30)
LETTER = st.characters(categories=["Lo", "Ll"])


@given(ANY_NAME)
@example("the the")
@example("U.S.")
@example("\u0345\u1fb3")
@example("a 's")
@settings(max_examples=300, deadline=None)
def test_the_key_of_a_key_is_itself(name: str) -> None:
    assert entity_key(entity_key(name)) == entity_key(name)


@given(ANY_NAME)
@example("...")
@example("🎉")
@example("\ud800")
@settings(max_examples=200, deadline=None)
def test_only_a_blank_name_has_an_empty_key(name: str) -> None:
    assert bool(entity_key(name)) == bool(name.strip())


@given(LETTER, LETTER)
@settings(max_examples=200, deadline=None)
def test_different_letters_stay_different(one: str, other: str) -> None:
    assert (entity_key(one * 2) == entity_key(other * 2)) == (_folded(one * 2) == _folded(other * 2))


def test_no_script_collapses() -> None:
    names = [
        "東京",
        "京都",
        "Москва",
        "Минск",
        "القاهرة",
        "بغداد",
        "🎉",
        "🚀",
        "दिल्ली",
        "दुल्ली",
        "서울",
        "C",
        "C++",
        "C#",
        "€",
    ]
    assert len({entity_key(name) for name in names}) == len(names)
    assert "" not in {entity_key(name) for name in names}


def test_case_width_punctuation_articles_and_possessives_do_not_tell_names_apart() -> None:
    for one, other in [
        ("The Hague", "hague"),
        ("U.S.", "US"),
        ("J. R. R. Tolkien", "J.R.R. Tolkien"),
        ("Saxe - Coburg", "Saxe-Coburg"),
        ("Kansas's 4th district", "Kansas 4th District"),
        ("Farrar & Rinehart, Inc.", "Farrar and Rinehart Inc"),
        ("14,573 acres", "14573 acres"),
        ("Ｔｏｋｙｏ", "tokyo"),
        ("O’Brien", "O'Brien"),
        ("Straße", "STRASSE"),
    ]:
        assert entity_key(one) == entity_key(other)


def test_signs_inside_numbers_and_identifiers_are_kept() -> None:
    assert entity_key("Ledger.commit") == "ledger.commit"
    assert entity_key("std::vector") == "std::vector"
    assert entity_key("commit_patch") == "commit_patch"
    assert entity_key("104.1 MHz") == "104.1 mhz"
    assert entity_key("src/main.py") == "src/main.py"


def test_a_title_loses_its_disambiguation() -> None:
    assert bare_title("Ed Wood (film)") == "Ed Wood"
    assert bare_title("(film)") == "(film)"


def _folded(text: str) -> str:
    for _ in range(4):
        text = unicodedata.normalize("NFKC", text).casefold()
    return unicodedata.normalize("NFKC", text)
