"""Memories by rules, without a model: what was decided, promised and told, in the words it was said in."""

from datetime import UTC, datetime

import pytest

from treering.core.objects import Utterance
from treering.extensions.discussions.generators.built_in import STATE_TOKENS, SUMMARY_TOKENS, BuiltInGenerator
from treering.extensions.discussions.generators.generator import Background, Chunk, GeneratedMemory, SpokenLine
from treering.retrieval.text.analysis import estimate_tokens

AT = datetime(2024, 5, 1, 9, tzinfo=UTC)
RULES = BuiltInGenerator()


def unread():
    raise AssertionError("rules need the chunk alone")


NOTHING = Background(recent=unread, everything=unread, summary=unread)


def said(*lines, at=None):
    return Chunk(tuple(SpokenLine(speaker, text, at) for speaker, text in lines))


def remembered(*lines, at=None):
    return RULES.memories(said(*lines, at=at), NOTHING).items


def memory(summary, **fields):
    return GeneratedMemory(title="A memory", summary=summary, **fields)


def spoken(speaker, *sentences):
    stated = tuple(Utterance(text=text, speaker=speaker) for text in sentences)
    return memory(" ".join(sentences), utterances=stated)


PLAN = (
    ("Ada", "Hi Bob! How are you?"),
    ("Bob", "Great, thanks. We decided to use Postgres instead of MySQL."),
    ("Ada", "I love hiking in the Alps."),
    ("Bob", "The deadline is Friday, 3 May."),
    ("Ada", "Ok"),
)


def test_rules_make_one_memory_with_speakers_and_dates():
    (item,) = remembered(*PLAN, at=AT)
    assert item.summary == (
        "[2024-05-01] Bob: We decided to use Postgres instead of MySQL. Ada: I love hiking in the Alps. "
        "Bob: The deadline is Friday, 3 May (2024-05-03)."
    )
    assert item.title == "Bob: We decided to use Postgres instead of MySQL"
    assert {"Ada", "Bob", "Postgres", "MySQL", "Alps", "3 May"} <= set(item.entities)
    assert "deadline" in item.key_phrases


@pytest.mark.parametrize(
    "lines",
    [
        [("user", "ok"), ("assistant", "You're welcome!")],
        [("user", "thanks"), ("assistant", "Let me know if you need anything else.")],
        [("user", "…")],
        [],
    ],
)
def test_a_chunk_with_nothing_in_it_gives_no_memory(lines):
    assert remembered(*lines) == ()


NOTICES = [
    (
        "bot",
        "[lamp:main] 2 new commits by Ada:\nab12cd34 (https://example.org/c/ab12cd34): Use oak instead of walnut - Ada",
    ),
    ("bot", '[lamp] The branch "oak" was deleted by Ada'),
    ("bot", "[lamp] New tag 2.0 was pushed by Ada"),
    ("dependabot[bot]", "We decided to bump numpy to 2.0."),
    ("deploy-bot", "Release 2.0 is approved and goes out on Friday, 3 May."),
    ("Ben", "@Ben uploaded a file: plan.pdf"),
    ("Ben", "Merge pull request #3 from lamp/oak"),
    ("Ben", "Ben has joined the channel"),
]


def test_title_is_the_beginning_of_the_best_sentence():
    long = "I prefer the early train on weekdays, because the office in Leeds is quiet then and on Sunday I am at home."
    (item,) = remembered(("user", long), ("assistant", "Noted."))
    assert item.title == "I prefer the early train on weekdays, because the office in Leeds is quiet…"


def test_what_machines_announce_makes_no_memory():
    assert remembered(*NOTICES) == ()


def test_what_people_say_between_notices_is_kept():
    (item,) = remembered(*NOTICES[:3], ("Ada", "We do Postgres"), *NOTICES[3:5], ("Ben", "Thanks, great!"))
    assert item.summary == "Ada: We do Postgres."
    assert item.title == "Ada: We do Postgres"


def test_a_bot_that_a_user_asks_is_a_model_and_is_heard():
    (item,) = remembered(("user", "Where is it?"), ("bot", "The deadline for the Heron lamp is Friday, 3 May."))
    assert "Heron lamp" in item.summary


@pytest.mark.parametrize("name", ["Abbot", "Talbot", "Robot lover", "Francis", "Alice"])
def test_people_are_heard_whatever_they_are_called(name):
    assert remembered((name, "We decided to use Postgres instead of MySQL.")) != ()


def test_memory_of_long_chunk_is_short():
    lines = [("Ada", f"We decided to meet Tom in City{n} on {n} May. It was long ago.") for n in range(1, 30)]
    (item,) = remembered(*lines)
    assert len(item.summary.split()) < 100
    assert item.summary.count("We decided") <= 5


def test_a_chunk_in_another_script_is_remembered():
    (item,) = remembered(("ユーザー", "私は東京に住んでいます。"))
    assert item.summary == "ユーザー: 私は東京に住んでいます。"


def test_chat_roles_are_not_names():
    (item,) = remembered(("user", "I moved to Berlin in March 2023."), ("assistant", "Berlin has many lakes."))
    assert not {"user", "assistant"} & set(item.entities)


@pytest.mark.parametrize(
    "aside",
    [
        "Ben: I will pay the 400 euros by 4 May, he wrote.",
        "Update: the deadline is 17 June.",
        "We changed our mind: we will use SQLite instead of Postgres.",
        "[2020-01-01] Eve: we decided to sell Acme.",
    ],
)
def test_memory_states_every_sentence_with_its_speaker(aside):
    chunk = Chunk((SpokenLine("Ada", f"{aside} I will wait until 5 May.", AT, 7),))
    (item,) = RULES.memories(chunk, NOTHING).items
    assert [(one.speaker, one.day, one.message) for one in item.utterances] == [("Ada", "2024-05-01", 7)] * 2
    (condensed,) = RULES.condense([item]).items
    assert condensed.utterances == item.utterances
    folded = RULES.fold("", [item, item]).text.split("\n")
    assert [line.startswith("[2024-05-01] Ada: ") for line in folded] == [True, True]
    points = [line for line in RULES.merge("\n".join(folded), "").text.split("\n") if line.startswith("- ")]
    assert [line.startswith("- [2024-05-01] Ada: ") for line in points] == [True, True]


def test_several_memories_are_condensed_into_their_best_sentences():
    items = [
        memory("[2024-05-01] Ada: I moved to Rome. It was warm.", entities=("Ada", "Rome"), topics=("move",)),
        memory("Bob: We decided to sell the car. Ada: I moved to Rome.", entities=("Bob",)),
    ]
    (item,) = RULES.condense(items).items
    assert "I moved to Rome" in item.summary
    assert "We decided to sell the car" in item.summary
    assert item.entities == ("Ada", "Rome", "Bob")
    assert item.topics == ("move",)


def test_memories_that_say_little_are_condensed_all_the_same():
    assert RULES.condense([memory("It was so."), memory("And then that.")]).items


def test_newer_memories_are_added_to_the_summary_each_once():
    first = RULES.fold("", [memory("Ada: I moved to Rome.")]).text
    both = RULES.fold(first, [memory("Ada: I moved to Rome."), memory("Bob: I sold my car.")]).text
    assert both == "Ada: I moved to Rome.\nBob: I sold my car."


def test_the_summary_stays_short_and_what_tells_the_least_goes_first():
    text = RULES.fold("", [memory("Ada: We decided to use Postgres for the Acme project on 3 May.")]).text
    for day in range(400):
        text = RULES.fold(text, [spoken("Ada", f"I saw bird number {day} in the garden.", "It looked at me.")]).text
    assert estimate_tokens(text) <= SUMMARY_TOKENS * 1.2
    assert "We decided to use Postgres" in text
    assert "bird number 399" in text
    assert "It looked at me" not in text.split("bird number 399")[0]


def test_new_facts_go_to_the_section_they_belong_to():
    facts = (
        "- Bob: We decided to use Postgres.\n- Ada: I prefer tea to coffee.\n"
        "- Ada: I live in Rome with Tom.\n- Ada: We need to pay Acme."
    )
    assert RULES.merge(facts, "").text.split("\n") == [
        "## Decisions",
        "- Bob: We decided to use Postgres.",
        "",
        "## Preferences",
        "- Ada: I prefer tea to coffee.",
        "",
        "## Facts",
        "- Ada: I live in Rome with Tom.",
        "",
        "## Open",
        "- Ada: We need to pay Acme.",
    ]


def test_what_the_document_says_already_is_not_added_again():
    facts = "- [2024-05-01] Bob: We decided to use Postgres.\n- Ada: I prefer tea."
    document = RULES.merge(facts, "").text
    assert RULES.merge(facts, document).text == document
    assert RULES.merge("Bob: we decided to use  Postgres", document).text == document


def test_newer_value_replaces_older_value_of_same_slot():
    document = RULES.merge("Ada: My phone number is 555-1234.\nAda: My best friend is Tom from Rome.", "").text
    newer = RULES.merge("Ada: My phone number is 555-9999.\nAda: My best friend is Eve from Bonn.", document).text
    assert "555-1234" not in newer
    assert "555-9999" in newer
    assert "Tom" in newer
    assert "Eve" in newer


def test_what_someone_wrote_into_the_document_stays_word_for_word():
    document = "# Us\n\nMy own words,   as they are.\n\n## Decisions\n- mine\n\n## Notes\n* more"
    merged = RULES.merge("Bob: We decided to use Postgres.", document).text
    assert merged == document.replace("- mine\n", "- mine\n- Bob: We decided to use Postgres.\n")


def test_the_document_stays_short_and_keeps_what_someone_wrote():
    document = "## Notes\n- small\n"
    for number in range(400):
        document = RULES.merge(f"Ada: I bought painting {number} in Paris for my sister.", document).text
    assert estimate_tokens(document) <= STATE_TOKENS * 1.1
    assert "- small" in document
    assert "painting 399 " in document


def test_the_same_chunk_gives_the_same_memory_everywhere():
    assert BuiltInGenerator().memories(said(*PLAN, at=AT), NOTHING) == RULES.memories(said(*PLAN, at=AT), NOTHING)
    assert RULES.name == BuiltInGenerator().name
