import os
import subprocess
import sys

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from treering.ports.models import Excerpt, Extraction, Form
from treering.retrieval.extraction.built_in import BuiltInExtractor
from treering.retrieval.extraction.names import PLEASANTRIES, PRONOUNS

FORMS: tuple[Form, ...] = ("prose", "dialogue", "code", "data")
WORDS = [
    "Ada",
    "Lovelace",
    "of",
    "the",
    "In",
    "1843,",
    "met.",
    '"Faust"',
    "東京",
    "- ",
    "\n",
    "import x",
    "f(",
    "Bob:",
    "5 km",
]
ANY_TEXT = st.one_of(st.text(st.characters(), max_size=80), st.lists(st.sampled_from(WORDS)).map(" ".join))


def read(text: str, *, form: Form = "prose", title: str = "", heading: str = "", speaker: str = "") -> Extraction:
    [extraction] = BuiltInExtractor().extract([Excerpt(text, title, heading, form, speaker)])
    return extraction


def names(extraction: Extraction) -> list[str]:
    return [one.name for one in extraction.entities]


def statements(extraction: Extraction) -> list[tuple[str, str, str]]:
    return [(one.subject, one.relation, one.object) for one in extraction.triples]


@given(ANY_TEXT, st.sampled_from(FORMS), st.sampled_from(["", "Ada Lovelace", "\ud800", "a"]))
@example("\ud800 Ada met \ud800.", "prose", "\ud800")
@example("Ada's \0 Book of 1843", "prose", "Book of")
@settings(max_examples=300, deadline=None)
def test_any_text_is_read_and_every_span_is_where_the_name_stands(text: str, form: Form, title: str) -> None:
    extraction = read(text, form=form, title=title)
    assert all(one.name == text[one.start : one.end] for one in extraction.entities if one.end)
    assert all(one.name.strip() for one in extraction.entities)


def test_each_excerpt_is_read_by_itself_and_in_order() -> None:
    excerpts = [Excerpt("Ada met Babbage."), Excerpt(""), Excerpt("Hi", form="dialogue", speaker="Bob")]
    together = BuiltInExtractor().extract(excerpts)
    assert together == [BuiltInExtractor().extract([one])[0] for one in excerpts]


@pytest.mark.parametrize(
    ("text", "form"),
    [
        ("In 1843 Ada Lovelace wrote to Charles Babbage.\n\n# Letters\n- London: a city", "prose"),
        ("Ada: I met Bob in Paris last week. Bob likes Paris.", "dialogue"),
        ("from retry import retry_call\n\ndef send(self):\n    self.flush(retry_call(2))", "code"),
        ("a: 1", "data"),
    ],
)
def test_plain_extraction_gives_the_same_names_and_statements(text: str, form: Form) -> None:
    excerpt = Excerpt(text, "Ledger.send", "Ledger.send", form)
    [whole] = BuiltInExtractor().extract([excerpt])
    [plain] = BuiltInExtractor().extract_plainly([excerpt])
    assert list(dict.fromkeys(plain.names)) == list(dict.fromkeys(one.name for one in whole.entities))
    assert list(plain.statements) == [(one.subject, one.relation, one.object) for one in whole.triples]


@pytest.mark.sampled(20)
@pytest.mark.parametrize(
    "unit", ["a", "A", "A ", "A. ", "1,", "!", '"', "`", "a-", "A of ", "漢", "한", "\ud800", "a b-", "A: b\n", "a("]
)
@pytest.mark.parametrize("form", FORMS)
def test_long_hostile_text_is_read(unit: str, form: Form) -> None:
    text = unit * (100_000 // len(unit))
    assert all(len(one.name) <= 200 for one in read(text, form=form).entities)


def test_what_is_found_does_not_depend_on_the_hash_seed() -> None:
    program = (
        "from treering.retrieval.extraction.built_in import BuiltInExtractor as B\n"
        "from treering.ports.models import Excerpt as E\n"
        "print(B().extract([E('In 1843 Ada Lovelace wrote to Charles Babbage of the Royal Society.', 'Ada')]))"
    )
    outputs = {
        subprocess.run(
            [sys.executable, "-c", program], env={**os.environ, "PYTHONHASHSEED": seed}, capture_output=True, check=True
        ).stdout
        for seed in ("1", "2")
    }
    assert len(outputs) == 1


def test_prose_gives_names_titles_dates_and_measures() -> None:
    text = (
        'In January 1960 George T. Solomon of the University of Göttingen published "Adweek" with Farrar & Rinehart, '
        "Inc. In it Ludwig van Beethoven won 104.1 MHz on May 12, 2018 at the 2020 Summer Olympics."
    )
    assert names(read(text)) == [
        "January 1960",
        "George T. Solomon",
        "University of Göttingen",
        "Adweek",
        "Farrar & Rinehart, Inc.",
        "Ludwig van Beethoven",
        "104.1 MHz",
        "May 12, 2018",
        "2020 Summer Olympics",
    ]


def test_a_word_that_only_opens_a_sentence_is_no_name() -> None:
    found = names(read("However, rain fell. Rain is wet. Founded by Ada, it closed. Snowing stopped. Durbin was glad."))
    assert found == ["Ada", "Durbin"]


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("Les factures sont envoyées le dernier jour du mois. Un client de Lyon les paie.", ["Lyon"]),
        ("Las facturas se envían el último día del mes. Un cliente de Sevilla las paga.", ["Sevilla"]),
        ("Le fatture sono spedite alla fine del mese. Una cliente di Bologna le paga.", ["Bologna"]),
        ("Ella sang it in Paris. Ella was heard all over the town.", ["Ella", "Paris", "Ella"]),
    ],
)
def test_an_article_or_pronoun_of_another_language_that_opens_a_sentence_is_no_name_there(
    text: str, names: list[str]
) -> None:
    (reading,) = BuiltInExtractor().extract([Excerpt(text)])
    assert [entity.name for entity in reading.entities] == names


def test_a_title_is_one_entity_where_it_is_mentioned() -> None:
    found = read("Since 1988 Home and Away is made in Sydney.", title="Home and Away (series)")
    assert names(found) == ["Home and Away", "1988", "Home and Away", "Sydney"]


def test_neighbours_in_a_sentence_are_related_in_its_words() -> None:
    found = read("Nola is a film by Alan Hruska. It premiered in New York, Paris and Rome.", title="Nola")
    assert statements(found) == [
        ("Nola", "is film by", "Alan Hruska"),
        ("Nola", "premiered in", "New York"),
        ("Nola", "premiered in", "Paris"),
        ("Nola", "premiered in", "Rome"),
    ]


def test_a_last_name_represents_the_full_name() -> None:
    found = read("Johann Strauss wrote Aschenbrödel. Strauss died in 1899.")
    assert ("Johann Strauss", "died in", "1899") in statements(found)


def test_scripts_without_case_give_terms() -> None:
    found = names(
        read("東京タワーは港区にあり「君の名は」に登場する。서울은 수도이다. القاهرة هي عاصمة مصر. Москва велика.")
    )
    assert {"東京タワー", "港区", "君の名は", "서울", "القاهرة", "Москва"} <= set(found)


def test_dialogue_is_about_its_speaker_and_leaves_pleasantries_out() -> None:
    found = read("Wow, thanks! I went to a LGBTQ support group yesterday.", form="dialogue", speaker="Caroline")
    assert [(one.name, one.kind) for one in found.entities] == [
        ("Caroline", "speaker"),
        ("LGBTQ support group", "phrase"),
    ]
    assert statements(found) == [("Caroline", "went to", "LGBTQ support group")]


def test_a_conversation_in_one_text_is_read_turn_by_turn() -> None:
    found = read("Alice: I moved to Berlin.\nBob: My sister bought a bakery.", form="dialogue")
    assert statements(found) == [("Alice", "moved to", "Berlin"), ("Bob", "bought", "bakery")]


@given(
    st.lists(st.sampled_from([*sorted(PRONOUNS), *sorted(PLEASANTRIES), "Ada", "went", "to", "Rome", "."])).map(
        " ".join
    )
)
@settings(max_examples=100, deadline=None)
def test_relations_hold_no_pronoun_and_topics_no_pleasantry(text: str) -> None:
    found = read(text, form="dialogue", speaker="Bob")
    assert not {word.lower() for one in found.triples for word in one.relation.split()} & PRONOUNS
    assert not {name.lower() for name in names(found)} & PLEASANTRIES


@pytest.mark.parametrize("form", ["code", "data"])
def test_code_and_data_give_only_what_they_are_called(form: Form) -> None:
    found = read("from house.core import digest as Digest", form=form, title="The Ledger", heading="Ledger > commit")
    assert (names(found), statements(found)) == (["The Ledger", "Ledger", "commit"], [])


def test_headings_and_list_items_are_related() -> None:
    found = read("## Install\n\n- **pip**: works\n- conda: not yet\n", heading="Guide > Setup")
    assert [one.name for one in found.entities if one.kind == "heading"] == ["Guide", "Setup", "Install"]
    assert statements(found) == [("Install", "lists", "pip"), ("Install", "lists", "conda")]
