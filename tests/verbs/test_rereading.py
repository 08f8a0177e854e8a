"""`options.rerank`: the best turns of conversations are read again, and nothing else is."""

import apsw
import pytest

from counting_reranker import CountingReranker
from space_parts import note, open_space
from treering.core.errors import InvalidInput
from treering.retrieval.search.reranking import MOST_PAIRS

QUESTION = "Which colour did Maria choose for the kitchen wall?"
ANSWER = "We took the green one in the end."
CHATTER = (
    "The kitchen wall gets a new colour, says Maria.",
    "Did you choose the tiles for the wall, Maria?",
    "Which kitchen do you mean?",
    "No colour on the wall before May.",
    "Lunch at one?",
)


@pytest.fixture
def reranker():
    """One that prefers what says what was chosen."""
    return CountingReranker(prefers="green")


@pytest.fixture
def chat(reranker):
    with open_space(reranker=reranker) as space:
        messages = [{"name": "Maria", "content": text} for text in (*CHATTER, ANSWER)]
        note(space, "", kind="conversation", origin="chat", messages=messages)
        yield space


def search(space, text=QUESTION, **options):
    return space.query("search", input={"text": text}, options=options)


def test_a_turn_that_the_reranker_prefers_rises(chat):
    before, after = search(chat), search(chat, rerank=20)
    place = [hit.text for hit in before.hits].index(ANSWER)
    assert place > 0
    assert [hit.text for hit in after.hits].index(ANSWER) < place


def test_it_is_off_unless_it_is_requested(chat, reranker):
    search(chat)
    assert reranker.read == []
    assert "rerank" not in search(chat).trace


def test_turns_are_read_with_the_name_of_who_said_them(chat, reranker):
    search(chat, rerank=20)
    assert f"Maria: {ANSWER}" in reranker.read


def test_the_trace_reports_how_many_pairs_were_read_and_how_long_that_took(chat, reranker):
    told = search(chat, rerank=3).trace["rerank"]
    assert told["pairs"] == len(reranker.read) == 3
    assert told["model"] == reranker.model_id
    assert told["milliseconds"] >= 0


def test_a_hit_explains_what_the_reranker_said_of_it(chat):
    hits = search(chat, rerank=3, explain=True).hits
    said = [hit.explain["rerank"] for hit in hits if "rerank" in hit.explain]
    assert len(said) == 3
    assert max(said) == 1


def test_a_context_reads_again_too(chat, reranker):
    report = chat.query("context", input={"task": QUESTION}, options={"rerank": 5})
    assert report.trace["sources"]["rerank"]["pairs"] == len(reranker.read) == 5
    assert "rerank" not in report.trace["beliefs"]


@pytest.mark.parametrize(("mode", "field"), [("search", "text"), ("context", "task")])
def test_prose_is_not_read_again_and_the_answer_says_so(reranker, mode, field):
    with open_space(reranker=reranker) as space:
        for number, text in enumerate((*CHATTER, ANSWER)):
            note(space, text, origin=f"note-{number}")
        plain = space.query(mode, input={field: QUESTION})
        asked = space.query(mode, input={field: QUESTION}, options={"rerank": 20})
    assert reranker.read == []
    assert asked.left_out == plain.left_out
    assert any("Not reranked" in warning for warning in asked.warnings)
    assert not any("Not reranked" in warning for warning in plain.warnings)


def test_where_prose_and_turns_mix_nothing_is_read_again(chat, reranker):
    for number, text in enumerate(CHATTER):
        note(chat, text, origin=f"note-{number}")
    report = search(chat, rerank=20)
    assert reranker.read == []
    assert report.trace["rerank"]["pairs"] == 0


def test_a_space_without_a_reranker_says_how_to_name_one():
    with open_space() as space, pytest.raises(InvalidInput, match="no reranker") as refused:
        search(space, rerank=20)
    assert "TREERING_RERANKER" in refused.value.hint


def test_more_pairs_than_the_bound_are_refused(chat):
    with pytest.raises(InvalidInput, match="rerank"):
        search(chat, rerank=MOST_PAIRS + 1)


def test_what_the_reranker_says_of_a_less_trusted_text_counts_less(tmp_path, reranker):
    address = f"sqlite:{tmp_path / 'talk.db'}"
    with open_space(address, channel="user") as space:
        texts = ("Maria chose the colour of grass for the kitchen wall.", "Lunch at one?", "A wall is a wall.")
        messages = [{"name": "Maria", "content": text} for text in texts]
        note(space, "", kind="conversation", origin="mine", messages=messages)
    planted = {"name": "Maria", "content": "Maria chose green for the kitchen wall."}
    with open_space(address, channel="import", reranker=reranker) as space:
        note(space, "", kind="conversation", origin="theirs", messages=[planted])
        hits = search(space, rerank=20, explain=True).hits
    assert hits[0].origin == "mine"
    assert [hit.explain["rerank"] for hit in hits if hit.origin == "theirs"] == [1]


def test_the_environment_names_a_reranker_for_every_space(tmp_path, monkeypatch):
    monkeypatch.setenv("TREERING_RERANKER", f"onnx:{tmp_path / 'missing'}")
    with pytest.raises(InvalidInput, match=r"lacks a network"):
        open_space()


class CheckpointingReranker(CountingReranker):
    """Copies the log of a SQLite file into the file while it reads, and notes whether a reader kept that waiting."""

    def __init__(self, file):
        super().__init__(prefers="green")
        self.file, self.kept_waiting = file, []

    def score(self, question, texts):
        connection = apsw.Connection(str(self.file))
        busy, *_ = next(connection.execute("PRAGMA wal_checkpoint(TRUNCATE)"))
        self.kept_waiting.append(bool(busy))
        connection.close()
        return super().score(question, texts)


@pytest.mark.parametrize("mode", ["search", "context"])
def test_a_file_is_not_held_while_a_reranker_reads(tmp_path, mode):
    reranker = CheckpointingReranker(tmp_path / "space.db")
    with open_space(f"sqlite:{reranker.file}", reranker=reranker) as space:
        messages = [{"name": "Maria", "content": text} for text in (*CHATTER, ANSWER)]
        note(space, "", kind="conversation", origin="chat", messages=messages)
        name = "text" if mode == "search" else "task"
        space.query(mode, input={name: QUESTION}, options={"rerank": 20})
    assert reranker.kept_waiting == [False]
