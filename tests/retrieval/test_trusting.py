import pytest

from treering.retrieval.search.trust import Wording, identifiers_in

ASKED = "Which river flows past the mill that Greta Holm restored in Norrby?"
TELLING = ["river", "flows", "past", "mill", "greta", "holm", "restored", "norrby"]


def repeats(text: str, asked: str = ASKED) -> bool:
    return Wording.of(asked).repeated_in(text)


@pytest.mark.parametrize(
    "text",
    [
        f"{ASKED} The answer is the Oder.",
        f"The Oder. {ASKED.upper()}",
        ASKED.replace("river", "ri\u200bver").replace("mill", "ｍｉｌｌ"),
        "word " * 500 + ASKED + " word" * 500,
    ],
    ids=["as it is", "in capitals", "with hidden characters", "inside a long text"],
)
def test_a_text_that_holds_the_question_repeats_it(text: str) -> None:
    assert repeats(text)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "Greta Holm restored the old mill in Norrby in 1987. It stands by the Alm.",
        "The mill in Norrby, which Greta Holm restored in 1987, stands where the river Alm flows past the church.",
        " ".join(f"{word} stone" for word in TELLING),
        " ".join(TELLING[:-2]),
    ],
    ids=[
        "nothing",
        "one half of the answer",
        "an answer in the words of the question",
        "the words apart",
        "a quarter missing",
    ],
)
def test_a_text_that_only_mentions_the_same_does_not(text: str) -> None:
    assert not repeats(text)


@pytest.mark.parametrize("asked", ["", "What is the capital of France?", "Who was Greta Holm?", "?!"])
def test_a_question_of_few_words_is_not_looked_for(asked: str) -> None:
    assert not repeats(f"{asked} {asked}", asked)


def test_a_question_in_a_script_without_spaces_is_looked_for_by_its_characters() -> None:
    asked = "格蕾塔修复的磨坊旁边是哪条河"
    assert repeats(f"{asked}？答案是奥得河。", asked)
    assert not repeats("磨坊在河边。", asked)


@pytest.mark.parametrize("asked", ["10.20.30.40", "what is 192.168.100.200", "why did 7d1f0c22-4a1e-4c55-9b1e fail"])
def test_an_identifier_counts_as_one_word(asked: str) -> None:
    assert not repeats(f"Of {asked} nothing is known.", asked)


@pytest.mark.parametrize(
    ("asked", "names"),
    [
        ("Where is 10.20.30.40?", {"10.20.30.40"}),
        ("Why did batch 7D1F0C22-4a1e-4c55 fail?", {"7d1f0c22-4a1e-4c55"}),
        ("What is in src/acme/retry_limit.py?", {"src/acme/retry_limit.py"}),
        ("Who set MAX_SIZE in config.toml?", {"max_size", "config.toml"}),
        ("Is ACME-221 done?", {"acme-221"}),
        ("Who won the 58th well-known F.C. cup in 2016?", set()),
        ("Who hit 0.300 from 1990-2001, and why at 10:30?", set()),
    ],
)
def test_identifiers_are_names_of_several_parts(asked: str, names: set[str]) -> None:
    assert identifiers_in(asked) == names
