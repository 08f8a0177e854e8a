import pytest

import treering
from treering.models.vocabulary import word_rarity
from treering.retrieval.text.misspelling import spellings_of


@pytest.mark.parametrize("other", ["terraform", "terrafro", "terrafrm", "terrafrkom", "terrbfrom"])
def test_spellings_differ_by_a_letter_or_a_swap(other):
    assert other in spellings_of("terrafrom")


@pytest.mark.parametrize("other", ["terrafrom", "derrafrom", "terraformx", "terra"])
def test_spellings_keep_the_first_letter_and_most_others(other):
    assert other not in spellings_of("terrafrom")


def test_word_rarity_rises_from_common_words_to_unknown_ones():
    words = ["the", "work", "server", "pagination", "Terraform"]
    rarities = [word_rarity(word) for word in words]
    assert rarities == sorted(rarities)
    assert rarities[0] == 0
    assert rarities[-1] == 1


@pytest.mark.parametrize(("text", "is_found"), [("Terrafrom drift", True), ("Terrapin drift", False)])
def test_search_finds_what_a_misspelt_word_means(text, is_found):
    with treering.open(":memory:", background=False) as space:
        item = {"text": "All resources are declared in Terraform modules.", "origin": "note"}
        space.ingest("source", input={"items": [item]})
        report = space.query("search", input={"text": text}, options={"semantic": False})
        assert bool(report.hits) == is_found


def test_misspelt_words_are_not_named_as_absent():
    with treering.open(":memory:", background=False) as space:
        space.ingest("source", input={"items": [{"text": "Education and festival plans for all classes."}]})
        for text in ("educaton of classes", "fesitval plans"):
            report = space.query("search", input={"text": text}, options={"semantic": False})
            assert report.hits
            assert report.warnings == ()


def test_name_inside_a_sentence_is_not_corrected():
    with treering.open(":memory:", background=False) as space:
        space.ingest("source", input={"items": [{"text": "The public library has a store.", "origin": "note"}]})
        report = space.query("search", input={"text": "When does Publix open?"}, options={"semantic": False})
        assert report.hits == ()
