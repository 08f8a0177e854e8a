"""People across conversations: their statements, plans, changes and disagreements, each with its message."""

import asyncio
from datetime import timedelta

import pytest
from statement_parts import MONDAY

import treering.aio
from space_parts import open_space
from treering.core.errors import InvalidInput, NotFound
from treering.extensions.discussions.memory import DiscussionMemory
from treering.verbs.ingest.turns import Message


def tell(space, name, *lines, within="/", day=0):
    """Record `Ada: text` lines, one a day."""
    said = [
        Message(role="user", name=speaker, content=text, at=MONDAY + timedelta(days=day + at))
        for at, (speaker, _, text) in enumerate(line.partition(": ") for line in lines)
    ]
    discussion = DiscussionMemory(space.engine, within=within).open(name)
    discussion.append(said)
    return discussion


def lines(space, name, **options):
    return str(space.person(name, **options)).splitlines()


@pytest.fixture
def talks(space):
    tell(space, "cabin", "Ada: I live in Kiel", "Cleo: Ben has a boat in the harbour", "Ben: I'll bring the kayak")
    tell(space, "work", "Ben: I prefer tea", "Cleo: Ben sold the boat", day=7)
    return space


def test_person_has_statements_of_all_conversations(talks):
    assert lines(talks, "ben") == [
        "## Preferences",
        "- Ben: I prefer tea [2026-03-09, discussion:work#0]",
        "",
        "## Open",
        "- Ben: I'll bring the kayak [2026-03-04, discussion:cabin#2]",
        "",
        "## Done or dropped",
        "- Cleo: Ben sold the boat (was: Ben has a boat in the harbour) [2026-03-10, discussion:work#1]",
    ]


@pytest.mark.parametrize(
    "text", ["Hi Ben! I moved to Leeds", "Thanks, Ben, I moved to Leeds", "I moved to Leeds, Ben."]
)
def test_statement_addressed_to_a_person_is_not_about_them(space, text):
    tell(space, "flat", f"Ada: {text}", "Ben: I prefer tea")
    assert not [line for line in lines(space, "Ben") if "Leeds" in line]
    assert [line for line in lines(space, "Ada") if "Leeds" in line]


def test_line_cites_a_message_that_can_be_evidence(talks):
    place = talks.person("Ben").lines[0].place
    fact = talks.fact("drink = tea", of="Ben", because=place)
    assert "I prefer tea" in fact.report.evidence[0].quote
    assert talks.show(place).text == "I prefer tea"


def test_move_in_a_later_conversation_replaces_the_home(space):
    tell(space, "one", "Ada: I live in Kiel")
    tell(space, "two", "Ada: I live in Turin", day=40)
    assert lines(space, "Ada")[1:] == ["- Ada: I live in Turin (was: I live in Kiel) [2026-04-11, discussion:two#0]"]


def test_agreed_plan_is_shown_for_both(space):
    tell(space, "trip", "Ada: Shall we go to the lake instead?", "Ben: Yes, let's go to the lake on 28 March")
    ahead = "- Ben: Yes, let's go to the lake on 28 March – in answer to Ada: Shall we go to the lake instead?"
    assert [lines(space, name)[1].partition(" [")[0] for name in ("Ada", "Ben")] == [ahead, ahead]


def test_accepted_suggestion_is_shown_for_both(space):
    tell(space, "trip", "Cleo: I live in Kiel", "Ada: Let's meet at the harbour on 28 March", "Ben: Good idea, agreed")
    assert "harbour" in str(space.person("Ada"))
    assert "harbour" in str(space.person("Ben"))
    assert "harbour" not in str(space.person("Cleo"))


@pytest.mark.parametrize(
    ("before", "change"),
    [
        ("Rover gets 60 g a day", "The vet recommends 55 g from now on"),
        ("The party is on Saturday", "Mum says the party is on Sunday now"),
    ],
)
def test_change_announced_by_a_third_person_is_shown_for_the_speaker(space, before, change):
    tell(space, "one", f"Ada: {before}", "Ben: ok", f"Ada: {change}")
    (line,) = lines(space, "Ada")[1:]
    assert line.startswith(f"- Ada: {change}")
    assert f"(was: {before})" in line


def test_fact_about_a_group_is_shown_for_its_author(space):
    tell(space, "trip", "Ben: I prefer tea", "Ada: Our boat is in the harbour of Kiel")
    assert "boat" in str(space.person("Ada"))
    assert "boat" not in str(space.person("Ben"))


def test_person_as_of_an_earlier_state(space):
    tell(space, "one", "Ada: I live in Kiel")
    before = space.engine.ledger.sequence(None)
    tell(space, "one", "Ada: I moved to Turin", day=9)
    assert lines(space, "Ada", as_of=before)[1:] == ["- Ada: I live in Kiel [2026-03-02, discussion:one#0]"]
    assert "Turin" in str(space.person("Ada"))


def test_person_sees_only_the_scope_and_below(space):
    tell(space, "diary", "Ada: I live in Kiel", within="/user/ada")
    tell(space, "diary", "Ben: Ada lives in Turin", within="/user/ben")
    assert "Kiel" in str(space.person("Ada", scope="/user/ada"))
    assert "Turin" not in str(space.person("Ada", scope="/user/ada"))
    assert {"Kiel", "Turin"} <= {line.line.first.text.split()[-1] for line in space.person("Ada").lines}


def test_unknown_person_is_refused_with_a_near_name(talks):
    with pytest.raises(NotFound, match="is about a person 'Bem'") as refused:
        talks.person("Bem")
    assert refused.value.hint == "Did you mean 'Ben'?"
    with pytest.raises(NotFound) as refused:
        talks.show("Bem")
    assert 'Names like it: "Ben".' in refused.value.hint


def test_first_name_means_the_only_person_with_it(space):
    tell(space, "one", "Ada Koch: I live in Kiel", "Ben: Ada owns a boat")
    assert len(space.person("Ada").lines) == len(space.person("Ada Koch").lines) == 2
    tell(space, "one", "Ada Stone: I live in Turin")
    with pytest.raises(InvalidInput, match="part of several names"):
        space.person("Ada")
    assert [line.text for line in space.person("Ada Koch").lines] == ["Ada Koch: I live in Kiel"]


def test_word_in_lower_case_elsewhere_is_no_person(space):
    tell(space, "one", "Ada: Retry is broken again", "Ben: does the retry work?")
    with pytest.raises(NotFound):
        space.person("Retry")


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("My husband Jonas's back hurts", ["Jonas"]),
        ("We have a daughter, Lina, who is four", ["Lina"]),
        ("I had lunch with a friend, Emil", ["Emil"]),
        ("My boss is Dr. Okafor", ["Dr. Okafor", "dr okafor", "Okafor"]),
        ("My friends Tom, Ben and Kai came to the lake", ["Tom", "Ben", "Kai"]),
        ("Tessa is my younger sister", ["Tessa"]),
        ("I talked to Mrs Patel about the lease", ["Patel"]),
        ("Gestern war ich mit meiner Schwester Tessa in der Oper", ["Tessa"]),
        ("Mi hermana se llama Lucía y vive en Madrid", ["Lucía"]),
    ],
)
def test_person_whom_a_statement_introduces_is_known(space, text, names):
    tell(space, "one", f"Ada: {text}")
    for name in names:
        assert text in str(space.person(name))


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("I called my sister in Kiel", "Kiel"),
        ("In Kiel, my sister has a boat", "Kiel"),
        ("Children, Christmas is at our house", "Christmas"),
        ("My colleague May Monday left", "Monday"),
        ("My dentist moved to Leeds", "Leeds"),
        ("I work at Ikea with my brother", "Ikea"),
    ],
)
def test_place_day_or_firm_beside_a_relation_is_no_person(space, text, name):
    tell(space, "one", f"Ada: {text}")
    with pytest.raises(NotFound, match="No statement in / is about a person"):
        space.person(name)


def test_show_and_page_mode_show_a_person(talks):
    page = talks.show("Ben")
    assert (page.title, page.object["kind"], page.is_view) == ("Ben", "person", True)
    assert "- Ben: I prefer tea [2026-03-09, discussion:work#0]" in page.text
    assert all(one.startswith("src:") for one in page.ids)


def test_person_within_a_token_budget_counts_the_rest(talks):
    short = talks.person("Ben", max_tokens=50)
    assert short.left_out == len(talks.person("Ben").lines) - len(short.lines) > 0
    assert "1 more statement did not fit" in short.warnings[0]


def test_person_does_not_advise_more_tokens_for_minor_statements(space):
    minor = [f"Ada: The door number {number} looked green" for number in range(40)]
    tell(space, "one", *minor, *(f"Ada: I paid {amount} euros to Ben" for amount in range(30)))
    short, long, longer = (space.person("Ada", max_tokens=tokens) for tokens in (100, 4_000, 20_000))
    assert long.lines == longer.lines
    note = f"{long.left_out} less important older statements left out; a search finds them."
    assert long.warnings == (note,)
    assert ("allow more tokens" in short.warnings[0], short.warnings[1]) == (True, note)


def test_async_space_shows_a_person(tmp_path):
    async def shown():
        async with treering.aio.open(f"sqlite:{tmp_path / 's.db'}", background=False) as space:
            tell(space.space, "one", "Ada: I live in Kiel")
            return str(await space.person("Ada"))

    assert "I live in Kiel" in asyncio.run(shown())


def test_person_of_all_discussions_is_empty_for_an_unknown_name(talks):
    memory = DiscussionMemory(talks.engine)
    assert memory.person("Zoe") == ""
    assert "## Preferences" in memory.person("Ben")


@pytest.fixture
def space():
    with open_space(channel="user") as opened:
        yield opened
