from graph_parts import passage

from treering.core.evidence import Triple
from treering.ports.models import Entity, Extraction
from treering.ports.search import EdgeType
from treering.retrieval.extraction.built_in import BuiltInExtractor
from treering.retrieval.index.projection import Entry, ties_in
from treering.retrieval.index.ties import MAX_TIES, Pair, excerpt_of, ties_of, word_code

READ = Extraction(
    (Entity("The Analytical Engine", "name", 0, 0), Entity("London", "name", 0, 0)),
    (Triple(subject="Ada Lovelace", relation="lived in", object="London"),),
)


def pairs(ties, tie):
    return [(pair.one, pair.other) for pair in ties.pairs if pair.tie == tie]


def mentioned(ties):
    return [name for name, tie in ties.nodes if tie == EdgeType.MENTION]


def test_a_passage_is_tied_to_what_it_mentions_its_title_and_its_object():
    ties = ties_of(passage(title="Ada Lovelace"), READ)
    assert ties.nodes == (
        ("analytical engine", EdgeType.MENTION),
        ("london", EdgeType.MENTION),
        ("ada lovelace", EdgeType.TITLE),
        ("src:one", EdgeType.PART),
    )


def test_a_title_that_is_mentioned_is_tied_once_as_the_title():
    assert ties_of(passage(title="London"), READ).nodes[-2:] == (("london", EdgeType.TITLE), ("src:one", EdgeType.PART))
    assert mentioned(ties_of(passage(title="London"), READ)) == ["analytical engine"]


def test_a_conversation_has_no_title():
    nodes = ties_of(passage(kind="conversation", title="Ada Lovelace"), READ).nodes
    assert EdgeType.TITLE not in {tie for _, tie in nodes}


def test_what_is_stated_ties_its_ends_with_the_codes_of_its_words():
    (fact,) = [pair for pair in ties_of(passage(), READ).pairs if pair.tie == EdgeType.FACT]
    assert (fact.one, fact.other) == ("ada lovelace", "london")
    assert {word_code(word) for word in ("ada", "live", "london")} <= set(fact.words)
    assert all(0 <= word < 1 << 16 for word in fact.words)


def test_triples_that_came_with_a_passage_come_before_what_was_read():
    ties = ties_of(passage("", ("Grace Hopper", "built", "a compiler")), READ)
    assert pairs(ties, EdgeType.FACT) == [("grace hopper", "compiler"), ("ada lovelace", "london")]
    assert mentioned(ties) == ["analytical engine", "compiler", "grace hopper", "london"]


def test_the_same_said_twice_is_one_fact_with_the_words_of_both():
    ties = ties_of(passage("", ("Ada", "met", "Bob"), ("ADA", "painted", "Bob")), Extraction())
    (fact,) = [pair for pair in ties.pairs if pair.tie == EdgeType.FACT]
    assert {word_code("met"), word_code("paint")} <= set(fact.words)


def test_what_is_stated_of_nothing_or_of_itself_ties_nothing():
    ties = ties_of(passage("", ("Ada", "is", "ADA"), ("the", "is", " ")), Extraction())
    assert pairs(ties, EdgeType.FACT) == []


def test_a_name_is_tied_to_its_plain_form_and_a_plain_name_to_none():
    ties = ties_of(passage("", ("Müllers", "met", "Bob")), Extraction())
    assert pairs(ties, EdgeType.FORM) == [("müllers", "muller")]


def test_an_object_is_tied_to_those_it_refers_to_but_not_to_itself():
    ties = ties_of(passage(), Extraction(), ["src:two", "act:one", "src:two", "src:one"])
    assert ties.pairs == (Pair("src:one", "act:one", EdgeType.LINK), Pair("src:one", "src:two", EdgeType.LINK))


def test_of_a_passage_of_nothing_but_names_only_so_many_are_kept():
    crowd = [(f"Person {n}", "met", f"Guest {n}") for n in range(MAX_TIES + 50)]
    ties = ties_of(passage("", *crowd), READ)
    assert len(mentioned(ties)) == len(pairs(ties, EdgeType.FACT)) == MAX_TIES


def test_nothing_is_tied_twice_names_are_sorted_and_facts_stand_as_stated():
    ties = ties_of(passage("", *[(one, "met", other) for one in "CAB" for other in "BCA"], title="A"), Extraction())
    assert len(set(ties.nodes)) == len(ties.nodes)
    assert mentioned(ties) == sorted(mentioned(ties)) == ["b", "c"]
    assert pairs(ties, EdgeType.FACT) == [("c", "b"), ("c", "a"), ("a", "b"), ("a", "c"), ("b", "c"), ("b", "a")]


def test_code_is_tied_by_what_it_is_called_alone():
    body = "def commit(self):\n    return Writer(SHARED_POOL).flush_rows()\n"
    there = {"path": "src/ledger.py", "language": "python"}
    in_file = passage(body, role="symbol", title="src/ledger.py", heading="Ledger.commit", metadata=there)
    in_note = passage(body, role="code", title="How to commit")
    filed, noted = ties_in([Entry(in_file, 0, ()), Entry(in_note, 0, ())], BuiltInExtractor())
    assert [name for name, _ in filed.nodes] == ["ledger.commit", "src/ledger.py", "src:one"]
    assert pairs(filed, EdgeType.FACT) == []
    assert [name for name, _ in noted.nodes] == ["how to commit", "src:one"]


def test_a_turn_is_read_as_speech_and_code_as_code():
    turn = excerpt_of(passage("Hello.", kind="conversation", title="Chat", heading="Ann (2023-05-08)"))
    assert (turn.speaker, turn.form, turn.title) == ("Ann", "dialogue", "")
    assert excerpt_of(passage("def f(): ...", role="symbol", title="f")).form == "code"
    note = excerpt_of(passage("Hello.", title="Notes", heading="One"))
    assert (note.title, note.heading, note.form) == ("Notes", "One", "prose")
