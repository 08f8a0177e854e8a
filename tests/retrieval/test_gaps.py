import pytest

from treering.models.vocabulary import word_rarity
from treering.retrieval.text.analysis import index_text
from treering.retrieval.text.typed_words import TypedWords, unknown_among

TEXT = "uploads are retried by parse_filter in core/filters.py; GitHub max depth well known; config.load()"
HERE = set(index_text(TEXT).split())


def unknown(task):
    return unknown_among(TypedWords.of(task).names(word_rarity), HERE)


@pytest.mark.parametrize(
    ("task", "missing"),
    [
        ("Make uploads configurable", []),
        ("Please carefully improve the retries of uploads", []),
        ("add kafka support", ["kafka"]),
        ("add support for Kafka and kafka", ["Kafka"]),
        ("call parse_depth, then parse_filter", ["parse_depth"]),
        ("use parseFilter", []),
        ("what does ConfigLoader do", ["ConfigLoader"]),
        ("use configLoad", []),
        ("the github workflow", ["workflow"]),
        ("fix `retry` and `x`", ["x"]),
        ("see core/filters.py and core/plans.py", ["core/plans.py"]),
        ("a well-known thing", []),
        ("a half-known thing", []),
        ("a kafka-like thing", ["kafka-like"]),
        ("with all of this upload", []),
        ("", []),
        ("42 + 17", []),
        ("東京の天気", ["東京の天気"]),
        ("which classes employ uploads in October", []),
        ("the default of UPLOADs and JWTs, such as a jwt", ["JWTs", "jwt"]),
        ("when does uploads.github.kafka_cap retry", ["uploads.github.kafka_cap"]),
        ("when does core.parse_filter retry for 30s", []),
    ],
)
def test_what_is_not_known_is_named_as_typed(task, missing):
    assert unknown(task) == missing


def test_a_capital_at_the_beginning_of_a_sentence_tells_nothing():
    assert unknown("Reluctantly retried. Painfully retried.") == []
    assert unknown("retried by Emily") == ["Emily"]


def test_a_task_of_ten_thousand_words_is_read():
    assert "zygote" in unknown("zygote " * 10 + "uploads " * 10_000)
