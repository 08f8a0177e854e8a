"""Context packs for tasks that nothing in a space speaks of."""

import numpy as np
import pytest

from sources.git_scratch import Scratch
from space_parts import all_of, decide, note, task
from treering.ports.passages import Reach
from treering.retrieval.index.rounds import run_together
from treering.retrieval.search.known_words import known_words
from treering.retrieval.search.question import Question
from treering.retrieval.text.analysis import estimate_tokens

PARTS = ("uploader", "scheduler", "parser", "renderer", "indexer", "mailer", "router", "logger")
FOREIGN = "Which nationality had the film directors Scott Derrickson and Ed Wood, who lead different studios?"
OWN = "How does the renderer lead its retries back to the queue when the network drops?"


def context(space, what, **options):
    return space.query("context", input={"task": what}, options=options)


@pytest.fixture
def code(space):
    """A space with some hundred passages about the parts of a program."""
    items = [
        {
            "text": f"The {part} of module {at} retries a failed job {at} times, then it leads it back to queue {at}.",
            "origin": f"{part}{at}.md",
        }
        for part in PARTS
        for at in range(20)
    ]
    space.ingest("source", input={"items": items})
    return space


@pytest.mark.parametrize("vectors", [False, True])
def test_a_task_that_nothing_speaks_of_gets_a_short_pack_that_says_so_first(code, vectors):
    if vectors:
        code.embed_pending()
    report = context(code, FOREIGN)
    assert report.status == "empty"
    assert report.empty.reason == "unknown_entity"
    assert report.pack.items == ()
    assert report.pack.summary.startswith('No indexed text mentions "nationality", "film"')
    assert report.text.splitlines()[2].startswith("No indexed text mentions")
    assert estimate_tokens(report.text) < 250


def test_the_nearest_passages_are_named_and_can_be_opened(code):
    report = context(code, FOREIGN)
    assert len(report.left_out) == len(report.pack.recommended_next_reads) == 3
    opened = code.query("expand", input={"ids": list(report.left_out)})
    assert opened.missing == ()


class Synonyms:
    """An embedder for which all texts about cats mean one thing, and all others another."""

    model_id, dimension, unrelated_below = "synonyms", 2, 0.6

    def embed_query(self, text):
        return np.array([1.0, 0.0] if "cat" in text or "feline" in text else [0.0, 1.0], np.float32)

    def embed_documents(self, texts):
        return np.stack([self.embed_query(text) for text in texts])


NOTES = ("Hedda is a vegetarian now.", "Zosia paid the deposit.", "The broom is in the shed.")
UNSHARED = "Where would a feline rest comfortably during winter evenings?"
"""A question that shares no word with the notes."""


@pytest.fixture
def notes(open_space):
    """A space with three short notes and their vectors."""
    space = open_space(embedder=Synonyms())
    space.ingest("source", input={"items": [{"text": text, "origin": f"{at}.md"} for at, text in enumerate(NOTES)]})
    space.embed_pending()
    return space


def test_closest_passages_are_listed_as_weak_if_no_word_is_shared(notes):
    found = notes.query("search", input={"query": UNSHARED})
    assert {hit.text for hit in found.hits} == set(NOTES)
    assert all("weak" in hit.flags for hit in found.hits)
    assert any(warning.startswith("No result answers the question") for warning in found.warnings)
    pack = context(notes, UNSHARED).pack
    assert (pack.items, len(pack.recommended_next_reads)) == ((), 3)


def test_closest_passages_come_with_the_reason_why_nothing_matches(notes):
    before = notes.query("search", input={"query": UNSHARED}).as_of
    notes.ingest("source", input={"items": [{"text": "A feline likes evenings.", "origin": "cats.md"}]})
    for options, reason in (
        ({"as_of": before}, "Nothing about it was recorded by then."),
        ({"filter": {"origin": "0.md"}}, "The filter excludes every match."),
    ):
        found = notes.query("search", input={"query": UNSHARED}, options=options)
        assert all("weak" in hit.flags for hit in found.hits)
        assert any(reason in warning for warning in found.warnings)


def test_unknown_single_word_finds_nothing(notes):
    assert notes.query("search", input={"query": "feline"}).status == "empty"


def test_summary_of_an_empty_space_lists_no_closest_passages(space):
    assert "closest" not in context(space, UNSHARED).pack.summary


def test_only_decision_near_a_task_is_packed_whatever_it_cites(notes, tmp_path):
    (tmp_path / "speed.md").write_text("It is fast.\n")
    notes.ingest("path", input={"path": str(tmp_path)})
    cited, *_ = notes.query("search", input={"query": "It is fast."}).hits
    evidence = {"source_id": cited.object_id, "segment_id": cited.segment_id}
    decide(notes, "The cat gets a basket", evidence)
    notes.embed_pending()
    assert [item.title for item in context(notes, UNSHARED).pack.items] == ["The cat gets a basket"]


def test_files_far_from_an_answered_task_are_not_named(notes, tmp_path):
    (tmp_path / "film.py").write_text("def film(reel):\n    return reel\n")
    notes.ingest("path", input={"path": str(tmp_path)})
    notes.embed_pending()
    assert context(notes, UNSHARED).pack.recommended_next_reads == ('"film.py#L1-L2 film": among the nearest',)
    decide(notes, "The cat gets a basket")
    notes.embed_pending()
    pack = context(notes, UNSHARED).pack
    assert ([item.title for item in pack.items], pack.recommended_next_reads) == (["The cat gets a basket"], ())


def test_decision_far_from_a_task_does_not_count_as_an_answer(open_space):
    space = open_space(embedder=Synonyms())
    text = "The {} of module {} retries a failed job, then it leads it back to the queue."
    items = [{"text": text.format(part, at), "origin": f"{part}{at}.md"} for part in PARTS for at in range(45)]
    space.ingest("source", input={"items": items})
    space.embed_pending()
    asked = "Does the renderer of cat Derrickson lead a failed job back to the queue?"
    assert context(space, asked).status == "empty"
    decide(space, "Zosia pays the deposit")
    space.embed_pending()
    assert context(space, asked).status == "empty"


def test_refused_task_names_places_of_files_with_reasons(code, tmp_path):
    (tmp_path / "film.py").write_text("def film(reel):\n    return reel  # Wind a film onto a reel.\n")
    code.ingest("path", input={"path": str(tmp_path)})
    pack = context(code, FOREIGN).pack
    assert pack.items == ()
    assert pack.recommended_next_reads[0].startswith('"film.py#L1-L2 film": mentions "film"')


@pytest.mark.parametrize("vectors", [False, True])
def test_a_task_in_the_words_of_the_space_is_answered(code, vectors):
    if vectors:
        code.embed_pending()
    report = context(code, OWN)
    assert report.status == "ok"
    assert "renderer" in report.pack.items[0].text


@pytest.mark.parametrize(("asked", "counts"), [("Renderer retries (#90317)", False), ("#90317", True)])
def test_unknown_tickets_count_only_by_themselves(code, asked, counts):
    known = words_known(code, asked)
    assert ("90317" in known.idf.weights) == counts
    assert ("#90317" in known.words.unknown) == counts


@pytest.mark.parametrize(
    ("asked", "counts"),
    [("perf(router): retry jobs", False), ("perf!: retry jobs", False), ("perf: ", True), ("Measure perf: jobs", True)],
)
def test_kind_of_change_counts_only_by_itself(code, asked, counts):
    assert ("perf" in words_known(code, asked).idf.weights) == counts


def words_known(space, asked):
    steps = known_words(Question.of(asked, embedder=None), Reach("/"))
    (known,) = run_together([steps], index=space.engine.index, ledger=space.engine.ledger)
    return known


def test_a_long_task_with_a_few_words_of_its_own_is_answered(code):
    asked = "How does the renderer retry a failed job and lead it back? We see this on staging since Tuesday."
    assert context(code, asked).status == "ok"


@pytest.mark.parametrize("text", ["renderer", "mailer3.md"])
def test_a_known_word_or_path_is_answered(code, text):
    assert context(code, text).status == "ok"


@pytest.mark.parametrize("text", ["zygote renderer", "kubernetes", "S3 job"])
def test_two_words_of_which_the_rarer_is_unknown_are_refused(code, text):
    assert context(code, text).status == "empty"


def test_a_task_that_names_a_node_is_never_refused(code):
    made = code.crystallize(
        "activity", input={"title": "Met", "nodes": [{"kind": "person", "name": "Scott Derrickson"}]}
    )
    (centre,) = (identity for identity in made.ids if identity.startswith("node:"))
    known = task(code, "Ask the legal department first", links=[{"type": "about", "target": centre}])
    assert known in [item.object_id for item in context(code, FOREIGN).pack.items]


def test_a_folder_of_code_in_a_task_counts_only_with_something_recorded_about_it(code, tmp_path):
    files = {f"{folder}/f{at}.go": f"package {folder}\n" for folder in ("model", "config") for at in range(6)}
    Scratch(tmp_path / "acme").commit(files)
    code.ingest("repo", input={"path": str(tmp_path / "acme")})
    question = "Which nationality had the model of Scott Derrickson?"
    assert context(code, question).status == "empty"
    assert code.query("search", input={"text": question}).warnings[0].startswith("No result answers")
    (model,) = [item.id for item in all_of(code, "node") if item.name == "model"]
    known = task(code, "Ask the legal department first", links=[{"type": "about", "target": model}])
    assert known in [item.object_id for item in context(code, question).pack.items]


def test_a_small_space_is_not_expected_to_know_many_words(space):
    known = decide(space, "Cap upload retries at five", note(space, "The client retries a failed upload five times."))
    report = context(space, "Retry uploads by kafka")
    assert known in [item.object_id for item in report.pack.items]


def test_what_vectors_find_near_is_answered_though_it_shares_no_telling_word(open_space):
    space = open_space(embedder=Synonyms())
    wanted = note(space, "The cat sat on the mat.", origin="cat")["source_id"]
    for at in range(100):
        note(space, f"Interest rates rose sharply in quarter {at}.", origin=f"bank{at}")
    assert context(space, UNSHARED).status == "empty"
    space.embed_pending()
    assert [item.object_id for item in context(space, UNSHARED).pack.items] == [wanted]


def test_of_the_past_nobody_says_that_nothing_speaks_of_a_task(code):
    assert context(code, FOREIGN, as_of=code.engine.ledger.sequence()).status == "ok"


def test_words_of_another_scope_make_nothing_known(code):
    code.ingest(
        "source",
        scope="/films",
        input={"items": [{"text": "Film directors Scott Derrickson and Ed Wood.", "origin": "f"}]},
    )
    assert context(code, FOREIGN).status == "empty"
    assert context(code, FOREIGN, descend=True).status == "ok"


def test_a_question_about_someone_nobody_mentions_is_refused_in_a_large_space(space):
    said = [
        "I went hiking near the lake last weekend and it rained the whole day.",
        "We cooked pasta and talked about the film about the lighthouse.",
        "My sister plays the violin in a small orchestra near the harbour.",
    ]
    messages = [
        {"name": ("Ann", "Ben")[at % 2], "content": f"{said[at % 3]} That was number {at}."} for at in range(400)
    ]
    space.ingest("source", input={"items": [{"kind": "conversation", "origin": "talk", "messages": messages}]})
    foreign = "Which pasta does Gwendolyn cook at the lighthouse?"
    assert context(space, foreign, semantic=False).empty.reason == "unknown_entity"
    report = space.query("search", input={"text": foreign}, options={"semantic": False})
    assert any(warning.startswith("No result answers the question") for warning in report.warnings)
    assert all("weak" in hit.flags for hit in report.hits)
    assert (
        context(space, "Which instrument does the sister of Ann play in the orchestra?", semantic=False).status == "ok"
    )


def talk(space, *told, turns=400):
    """Tell a space a conversation of so many turns, with these among them."""
    said = [
        "I went hiking near the lake last weekend and it rained the whole day.",
        "We cooked pasta and talked about the film about the lighthouse.",
        "My sister plays the violin in a small orchestra near the harbour.",
    ]
    texts = ["Good morning.", *told, *(f"{said[at % 3]} That was number {at}." for at in range(turns))]
    messages = [
        {"name": ("Ann", "Ben")[at % 2], "content": text, "at": "2022-07-09T10:00:00Z"} for at, text in enumerate(texts)
    ]
    space.ingest("source", input={"items": [{"kind": "conversation", "origin": "talk", "messages": messages}]})


@pytest.mark.parametrize(("somebody", "status"), [("Ann and Ben", "ok"), ("Hilda, Ingrid and Gwendolyn", "empty")])
def test_that_someone_is_named_elsewhere_makes_no_answer(space, somebody, status):
    things = ", ".join(f"thing{at}" for at in range(60))
    talk(
        space,
        "Gwendolyn sells stamps.",
        "Ingrid is tall.",
        "We met Hilda.",
        f"In March I repaired {things} and the bicycle of the neighbour.",
    )
    assert context(space, f"Did {somebody} repair the bicycle?", semantic=False).status == status


def test_the_words_of_a_date_say_nothing_against_a_turn(space):
    talk(space, "I baked a cake with plums today.")
    assert (
        context(space, "What did Ann bake in the kitchen of the garage in September 2022?", semantic=False).status
        == "ok"
    )


@pytest.mark.parametrize(("things", "status"), [(0, "ok"), (60, "empty")])
def test_what_a_long_text_covers_of_a_question_may_be_chance(open_space, things, status):
    class Apart:
        """An embedder for which a question is near to no text."""

        model_id, dimension, unrelated_below = "apart", 2, 0.6

        def embed_query(self, text):
            return np.array([1.0, 0.0], np.float32)

        def embed_documents(self, texts):
            return np.array([[0.0, 1.0]] * len(texts), np.float32)

    space = open_space(embedder=Apart())
    listed = ", ".join(f"thing{at}" for at in range(things))
    told = [f"The violin stands in the kitchen {listed}", *(f"It rained on day {at} near town." for at in range(600))]
    messages = [{"name": ("Ann", "Ben")[at % 2], "content": text} for at, text in enumerate(told)]
    space.ingest("source", input={"items": [{"kind": "conversation", "origin": "talk", "messages": messages}]})
    space.embed_pending()
    assert context(space, "Which old violin stands in the kitchen?").status == status


@pytest.mark.parametrize(("cosine", "status"), [(0.66, "ok"), (0.3, "empty")])
def test_in_a_small_space_a_word_in_common_counts_by_how_near_the_text_is(open_space, cosine, status):
    class Beside:
        """An embedder for which every text is as near to a question."""

        model_id, dimension, unrelated_below = "beside", 2, 0.6

        def embed_query(self, text):
            return np.array([1.0, 0.0], np.float32)

        def embed_documents(self, texts):
            return np.array([[cosine, (1 - cosine**2) ** 0.5]] * len(texts), np.float32)

    space = open_space(embedder=Beside())
    note(space, "Priya is on call in odd weeks and Tomasz in even ones.", origin="call")
    note(space, "Redis keeps what was sold for a week.", origin="cache")
    messages = [{"name": "Ann", "content": "I will paint the fence next week."}]
    space.ingest("source", input={"items": [{"kind": "conversation", "origin": "talk", "messages": messages}]})
    space.embed_pending()
    asked = "Which colleague gets paged or rung up this week?"
    assert context(space, asked).status == status
    assert context(space, asked, filter={"kind": "conversation"}).status == status


@pytest.mark.parametrize(("name", "status"), [("Corey Hart", "ok"), ("Corey J. Hart", "ok"), ("Corey Taylor", "empty")])
@pytest.mark.parametrize("others", [20, 400])
def test_a_name_whose_words_are_nowhere_together_is_not_known(open_space, name, status, others):
    class Unsure:
        """An embedder for which every text is a little farther from a question than what is related."""

        model_id, dimension, unrelated_below = "unsure", 2, 0.69

        def embed_query(self, text):
            return np.array([1.0, 0.0], np.float32)

        def embed_documents(self, texts):
            return np.array([[0.63, 0.777]] * len(texts), np.float32)

    space = open_space(embedder=Unsure())
    note(space, "Corey Hart was born in Montreal.", origin="hart")
    note(space, "Elizabeth Taylor starred in a film about the queen of Egypt.", origin="taylor")
    for at in range(others):
        note(space, f"It rained on day {at} near the town.", origin=f"rain{at}")
    space.embed_pending()
    assert context(space, f"Where was {name} born?").status == status


@pytest.mark.parametrize(("somebody", "status"), [("Ann", "ok"), ("Tim", "empty")])
def test_that_the_best_turns_have_none_of_the_names_asked_for_counts_against_them(space, somebody, status):
    tall = [f"Tim is tall, {at} feet at least." for at in range(40)]
    listed = ", ".join(f"thing{at}" for at in range(30))
    talk(space, *tall, *(f"The fantasy series of season {at} is about dragons, {listed}." for at in range(5)))
    asked = f"Which fantasy series makes {somebody} so excited and happy these days?"
    assert context(space, asked, semantic=False).status == status


def test_searches_name_the_subject_that_no_note_mentions(space):
    for at, text in enumerate(("The supplier of packaging is Pack & Co.", "The oven is serviced by Haller.")):
        note(space, text, origin=f"{at}.md")
    told = space.query("search", input={"text": "who is our flour supplier"})
    assert told.hits
    assert 'Nothing here mentions "flour".' in told.warnings
    known = space.query("search", input={"text": "who is the supplier of packaging"})
    assert not any("mentions" in one for one in known.warnings)
