from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from recollection_parts import BEGAN, SETTINGS, Script, item, opened, said, talked

from space_parts import open_space
from treering.core.errors import InvalidInput
from treering.extensions.discussions.memory import DiscussionMemory
from treering.extensions.discussions.search import DiscussionSearch, FieldWeights
from treering.verbs.ingest.turns import Message
from treering.verbs.read_reports import ONLY_NEAREST

LINES = (
    "Ada keeps her red boat in the harbour",
    "Ben paints the boat red every spring",
    "東京タワーに登りました",
    "Die Straße nach Übersee ist gesperrt",
    "我们下周去北京大学",
    "The function parse_header_line fails",
    "Мы едем в Санкт-Петербург",
    "ok",
)


def texts(found):
    return [one.text for one in found]


def look(discussion, query, **options):
    return texts(discussion.search(query, DiscussionSearch(**{"what": "turns", **options})))


@pytest.fixture
def discussion(space):
    return talked(space, *LINES)


def test_search_without_memories_names_update_and_turns(space):
    talks = space.discussions()
    discussion = talks.open("accounts")
    discussion.append([Message(role="user", content="Our accountant is Mrs. Vogel.")])
    for within in (talks, discussion):
        found = within.search("Who is our accountant?")
        assert (list(found), found.warnings) == (
            [],
            ("There are no memories yet. Make them with update, or search messages with what=turns.",),
        )
        assert within.search("zygote", DiscussionSearch(what="both")).warnings == ()


def test_search_for_words_in_no_memory_has_no_warning(discussion):
    discussion.update()
    assert discussion.all_memories()
    assert discussion.search("zygote").warnings == ()


@pytest.mark.sampled(8)
@pytest.mark.parametrize("what", ["turns", "memories"])
@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("red boat", [LINES[0]]),
        ("boat red", [LINES[1]]),
        ("no such thing; harbour", [LINES[0]]),
        ('"every spring"', [LINES[1]]),
        ("タワー", [LINES[2]]),
        ("東京タワー", [LINES[2]]),
        ("京大学; nothing", [LINES[4]]),
        ("大", [LINES[4]]),
        ("strasse; STRASSE", [LINES[3]]),
        ("ubersee", [LINES[3]]),
        ("parse_header", [LINES[5]]),
        ("header line", [LINES[5]]),
        ("САНКТ-Петербург", [LINES[6]]),
        ("painted", [LINES[1]]),
        ("every-spring", [LINES[1]]),
        ("header-line", [LINES[5]]),
    ],
)
def test_keywords_are_phrases_in_any_script(discussion, query, expected, what):
    assert look(discussion, query, what=what) == expected


def test_any_of_the_keywords_is_enough_and_more_are_better(discussion):
    found = look(discussion, "harbour; every spring; the boat; red")
    assert set(found) == {LINES[0], LINES[1]}
    assert found[0] == LINES[1]


def test_of_too_many_keywords_the_first_count(discussion):
    many = "; ".join([*(f"none{at}" for at in range(60)), "harbour"])
    assert look(discussion, many) == look(discussion, "none") == []
    assert look(discussion, many, max_keywords=61) == [LINES[0]]


@pytest.mark.parametrize("query", ["red submarine", "no boat; harbour office", "the green boat", "boat trips to where"])
def test_keywords_that_are_nowhere_find_nothing(discussion, query):
    for what in ("memories", "turns", "both"):
        assert look(discussion, query, what=what) == []


@pytest.mark.parametrize("query", ["who paints the boat", "What about the boat that is red", "The boat, painted when?"])
def test_question_is_recognized_by_mark_or_first_word(discussion, query):
    assert LINES[1] in look(discussion, query)


@pytest.mark.parametrize("mode", ["keywords", "natural", "semantic", "hybrid"])
def test_a_question_in_a_sentence_finds_what_answers_it(discussion, space, mode):
    space.embed_pending()
    assert LINES[1] in look(discussion, "Who is it that paints the boat, and when?", mode=mode, limit=3)


@pytest.mark.sampled(8)
@pytest.mark.parametrize("mode", ["keywords", "natural", "hybrid"])
@pytest.mark.parametrize("query", ["", "  ", ";;", "?!", "\0", '"', "NEAR(", "title:"])
def test_nothing_in_a_query_is_syntax_and_a_blank_one_finds_nothing(discussion, query, mode):
    assert look(discussion, query, mode=mode) == []


def test_messages_come_in_the_order_of_the_spaces_own_search(discussion, space):
    space.embed_pending()
    for query in ("red boat", "Where does Ada keep it?", "東京"):
        filter_ = {"type": "source", "kind": "conversation"}
        own = space.query("search", discussion.ref.scope, {"text": query}, {"filter": filter_, "limit": 5}).hits
        assert look(discussion, query, mode="hybrid", limit=5) == [hit.text for hit in own]


@pytest.mark.parametrize("mode", ["semantic", "hybrid"])
def test_replies_of_a_model_that_say_nothing_come_last(space, mode):
    discussion = DiscussionMemory(space.engine).open("chat")
    content = ["I'm allergic to hazelnuts", "The rent is 1,450 francs a month", "I swim on Tuesday evenings", "東京"]
    replies = ["That's good to know.", "Noted, thank you for telling me.", "Great, I'll remember that.", "Got it!"]
    told = [Message(role="user", content=text) for text in content]
    discussion.record([*told, *(Message(role="assistant", content=text) for text in replies)], start=0)
    space.embed_pending()
    for query in ("What foods should I avoid?", "How do I stay fit?"):
        found = look(discussion, query, mode=mode)
        assert set(found[:4]) == set(content)
        assert set(found[4:]) == set(replies)
    assert look(discussion, "thank you", mode=mode)[0] == "Noted, thank you for telling me."


def test_what_is_found_can_be_cited(discussion, space):
    (turn,) = discussion.search("harbour", DiscussionSearch(what="turns"))
    assert space.engine.ledger.segment(turn.source_id, turn.segment_id).excerpt == turn.text
    assert (turn.kind, turn.first, turn.speaker, turn.at, turn.scope) == ("turn", 0, "user", BEGAN, "/discussion/talk")
    (memory,) = discussion.search("harbour")
    assert space.engine.ledger.get(memory.id).summary == memory.text
    assert (memory.kind, memory.first, memory.at, memory.memory.item.title) == ("memory", 0, BEGAN, LINES[0])


def test_versions_of_summary_and_state_are_no_memories(discussion):
    discussion.write_summary("The harbour of the summary")
    discussion.edit_state("The harbour of the state")
    for mode in ("keywords", "natural", "hybrid"):
        assert look(discussion, "harbour", what="memories", mode=mode, limit=1) == [LINES[0]]


def test_memories_and_messages_can_be_looked_for_together(discussion):
    found = discussion.search("harbour", DiscussionSearch(what="both"))
    assert {one.kind for one in found} == {"memory", "turn"}


def fielded(space):
    """Memories that hold one word each in another field."""
    fields = {
        "one": item("x").model_copy(update={"title": "the kestrel"}),
        "two": item("a kestrel flew").model_copy(update={"title": "x"}),
        "three": item("x", entities=("Kestrel",)),
        "four": item("x", key_phrases=("kestrel nest",)),
        "five": item("x", topics=("kestrel",)),
    }
    return talked(space, *fields, script=Script(items_of=lambda text: (fields[text],)))


@pytest.mark.parametrize(
    ("field", "first"), [("title", 0), ("summary", 1), ("entities", 2), ("key_phrases", 3), ("topics", 4)]
)
@pytest.mark.parametrize("mode", ["keywords", "natural"])
def test_the_field_that_weighs_most_comes_first_and_one_without_weight_does_not_count(space, field, first, mode):
    discussion = fielded(space)
    none = dict.fromkeys(("title", "summary", "entities", "key_phrases", "topics"), 0.0)
    heavy = FieldWeights(**{**dict.fromkeys(none, 0.1), field: 9.0})
    found = discussion.search("kestrel", DiscussionSearch(mode=mode, weights=heavy))
    assert (len(found), found[0].first) == (5, first)
    only = discussion.search("kestrel", DiscussionSearch(mode=mode, weights=FieldWeights(**{**none, field: 1.0})))
    assert [one.first for one in only] == [first]


def yearly(space):
    discussion = opened(space)
    discussion.record(said(*(f"The kestrel came in year {at}" for at in range(5)), every=timedelta(days=365)), start=0)
    discussion.update()
    return discussion


@pytest.mark.sampled(8)
@pytest.mark.parametrize("what", ["turns", "memories"])
@pytest.mark.parametrize(
    ("options", "years"),
    [
        ({"date_prefix": "2025"}, {1}),
        ({"date_prefix": "2024-05"}, {0}),
        ({"date_prefix": "2024-05-02"}, set()),
        ({"since": datetime(2026, 1, 1, tzinfo=UTC)}, {2, 3, 4}),
        ({"until": datetime(2026, 1, 1, tzinfo=UTC)}, {0, 1}),
        ({"since": datetime(2025, 1, 1, tzinfo=UTC), "until": datetime(2026, 1, 1, tzinfo=UTC)}, {1}),
    ],
)
@pytest.mark.parametrize("mode", ["keywords", "hybrid"])
def test_only_what_was_said_at_the_time_asked_for_is_found(space, options, years, what, mode):
    found = yearly(space).search("kestrel", DiscussionSearch(what=what, mode=mode, **options))
    assert {one.first for one in found} == years


def test_what_was_said_at_the_time_requested_is_found_among_much_else(space):
    discussion = opened(space, settings=replace(SETTINGS, max_messages=500, chunk_tokens=100_000))
    discussion.record(said(*(f"kestrel kestrel {at}" for at in range(120))), start=0)
    late = said("Far and wide, after many words about other birds, a kestrel", every=timedelta(days=400), start=120)
    discussion.append(late)
    assert look(discussion, "kestrel", date_prefix=f"{late[0].at:%Y}", limit=1) == [late[0].content]


def test_where_recency_counts_the_newer_comes_before_the_older(space):
    discussion = yearly(space)
    for what in ("turns", "memories"):
        found = discussion.search("kestrel", DiscussionSearch(what=what, recency=30.0))
        assert [one.first for one in found] == [4, 3, 2, 1, 0]


def test_what_shares_names_with_the_best_results_comes_after_them(space):
    made = {
        "a": item("The boat leaks", entities=("Ada Byron",)),
        "b": item("She sold her house", entities=("Ada Byron", "Turin")),
        "c": item("It rains"),
    }
    discussion = talked(space, *made, script=Script(items_of=lambda text: (made[text],)))
    assert look(discussion, "boat", what="memories") == ["The boat leaks"]
    expanded = discussion.search("boat", DiscussionSearch(expand_entities=True))
    assert texts(expanded) == ["The boat leaks", "She sold her house"]
    assert expanded[0].score > expanded[1].score


def test_discussion_search_stays_in_its_discussion(space):
    for identity in ("one", "two"):
        talked(space, f"The kestrel of {identity}", identity=identity)
    outside = DiscussionMemory(space.engine, within="/user/ada", settings=SETTINGS, generator=Script())
    outside.open("three").record(said("The kestrel of three"), start=0)
    space.ingest("source", scope="/", input={"items": [{"text": "The kestrel of a note"}]})
    memory = DiscussionMemory(space.engine)
    assert look(memory.open("one"), "kestrel") == ["The kestrel of one"]
    assert set(look(memory, "kestrel")) == {"The kestrel of one", "The kestrel of two"}
    assert set(look(memory, "kestrel", mode="hybrid")) == {"The kestrel of one", "The kestrel of two"}
    assert look(outside, "kestrel") == ["The kestrel of three"]


def test_what_was_deleted_is_not_found(discussion):
    discussion.delete([0])
    assert look(discussion, "harbour") == look(discussion, "harbour", what="memories") == []


@pytest.mark.parametrize(
    "wrong",
    [
        {"limit": 0},
        {"max_keywords": 0},
        {"recency": 0.0},
        {"since": datetime(2024, 1, 1)},  # noqa: DTZ001 - that is what is wrong with it
        {"date_prefix": "May 2024"},
        {"date_prefix": "2024-5"},
    ],
)
def test_options_that_make_no_sense_are_refused(wrong):
    with pytest.raises(InvalidInput):
        DiscussionSearch(**wrong)


def test_a_weight_below_nothing_is_refused():
    with pytest.raises(InvalidInput):
        FieldWeights(title=-1)


def test_a_search_in_a_file_finds_what_another_process_wrote(tmp_path):
    with open_space(f"sqlite:{tmp_path / 's.db'}") as one, open_space(f"sqlite:{tmp_path / 's.db'}") as other:
        reader = opened(other)
        assert look(reader, "harbour") == []
        opened(one).record(said(*LINES), start=0)
        assert look(reader, "harbour") == [LINES[0]]


@pytest.mark.parametrize("mode", ["keywords", "natural", "hybrid"])
def test_a_message_that_asks_is_found_with_the_message_that_answers(space, mode):
    discussion = DiscussionMemory(space.engine).open("asked")
    lines = (("Ada", "Which harbour has the red boat?"), ("Ben", "Bergen, since May."), ("Ada", "Then we go."))
    discussion.record([Message(content=text, name=name) for name, text in lines], start=0)
    (found, *_) = discussion.search("red boat", DiscussionSearch(what="turns", mode=mode))
    assert found.text == lines[0][1]
    assert (found.reply.speaker, found.reply.text, found.reply.turn) == ("Ben", "Bergen, since May.", 1)
    others = discussion.search("Bergen", DiscussionSearch(what="turns", mode=mode))
    assert {one.text for one in others if one.reply} <= {lines[0][1]}


def test_search_warns_if_no_result_is_relevant(space):
    discussion = talked(space)
    search = DiscussionSearch(what="both", mode="hybrid")
    assert ONLY_NEAREST in discussion.search("Which penguins from Antarctica paint igloos?", search).warnings
    assert ONLY_NEAREST not in discussion.search("Who bought the red boat?", search).warnings
