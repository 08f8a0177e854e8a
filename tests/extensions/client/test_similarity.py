import client_parts
import pytest

from treering.extensions.client.items.similarity import of_cosine, of_relevance
from treering.retrieval.tuning import TUNING

NOTES = [
    "Uses Vitest for all testing.",
    "Deploys happen on Friday from the release branch.",
    "The staging service listens on port 8080.",
    "The billing service listens on port 9090.",
    "The mail service has a release branch of its own.",
    "Which port a service has is set in the chart.",
    "Fonzie: 10.2.3.4, behind the bastion.",
    "Quokka is what we call the nightly export.",
]


@pytest.fixture
def notes():
    with client_parts.blocking() as client:
        for note in NOTES:
            client.store(note)
        yield client


def similarity(client, query, note):
    every = client.retrieve(query, 50, profile=client_parts.EVERYTHING)
    return next(one.similarity_score for one in every if one.content == note)


@pytest.mark.parametrize(
    ("query", "note"),
    [
        ("What are we using Redis for?", 0),
        ("what do we use redis for", 0),
        ("Which service uses Kafka?", 2),
        ("Does Grafana happen to need approval?", 1),
        ("Do we need to discuss the mail quota of Hetzner?", 4),
    ],
)
def test_a_common_word_is_no_answer_to_a_rare_one(notes, query, note):
    assert similarity(notes, query, NOTES[note]) < TUNING.client.related
    assert NOTES[note] not in client_parts.texts(notes.retrieve(query))


@pytest.mark.parametrize(
    ("query", "note"),
    [
        ("Which port and service does fonzie use?", 6),
        ("the release and the service for quokka", 7),
        ("do we need fonzie on that port", 6),
        ("What are we using Vitest for?", 0),
        ("Which service is Quokka?", 7),
    ],
)
def test_a_rare_word_among_others_is_found(notes, query, note):
    assert similarity(notes, query, NOTES[note]) >= TUNING.client.related
    assert client_parts.texts(notes.retrieve(query))[0] == NOTES[note]


@pytest.mark.parametrize(
    ("near", "coverage", "expected"),
    [(None, 0, 0), (-0.3, 0, 0), (0.1, 0, TUNING.client.related), (0.6, 0, 1), (0.6, 2, 1), (None, 2, 1)],
)
def test_a_relevance_has_its_place_on_the_scale(near, coverage, expected):
    assert of_relevance(near, coverage) == pytest.approx(expected)


@pytest.mark.parametrize("query", ["?", "use", "what is the"])
def test_a_query_without_telling_words_has_a_similarity(notes, query):
    assert all(0 <= similarity(notes, query, note) <= 1 for note in NOTES)


@pytest.mark.parametrize(("cosine", "expected"), [(0.62, TUNING.client.related), (1.0, 1.0), (-1.0, 0.0)])
def test_a_cosine_has_its_place_on_the_scale(cosine, expected):
    assert of_cosine(cosine, unrelated_below=0.62) == pytest.approx(expected)
