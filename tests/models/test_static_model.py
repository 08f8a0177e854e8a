"""The static embedder, with its real tables."""

import json
import subprocess
import sys
from hashlib import sha256
from importlib.resources import files

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

import treering
from treering.core.errors import Corrupt
from treering.models import shipped as shipped_files
from treering.models import static_model
from treering.models.static_model import StaticEmbedder
from treering.ports.models import prose_share_of
from treering.testing.fakes import HashingEmbedder

SHIPPED = files("treering.models") / "static_bge_small"
_EMBEDDER = StaticEmbedder()
_TOKENIZER = shipped_files.load_tokenizer(
    shipped_files.verified(shipped_files.place_of_model(), shipped_files.TOKENIZER), static_model.LONGEST
)
_SPECIAL = ("[CLS]", "[SEP]", "[PAD]", "[UNK]", "[MASK]")


def test_its_tables_are_those_that_the_record_of_their_making_names():
    record = json.loads((SHIPPED / "record.json").read_text())
    found = {name: sha256((SHIPPED / name).read_bytes()).hexdigest() for name in static_model.SHA256}
    assert found == record["files"] == static_model.SHA256


def test_its_tables_take_at_most_8_megabytes():
    assert sum(len((SHIPPED / name).read_bytes()) for name in static_model.SHA256) <= 8_000_000


def test_a_question_is_nearest_to_the_text_that_answers_it():
    documents = [
        "Writes are retried three times with exponential back-off.",
        "The office plants are watered on Mondays.",
        "Our logo uses a shade of green.",
    ]
    cosines = _EMBEDDER.embed_documents(documents) @ _EMBEDDER.embed_query("how often is a failed save retried?")
    assert int(cosines.argmax()) == 0


@given(st.text(max_size=80) | st.text("aA1.-_'é ß\t\n\x0b\x7f\x85\u2028\u0301\u200b漢İ", max_size=40))
@example("B\x85U")
def test_it_cuts_texts_into_the_tokens_of_the_built_in_model(text):
    if any(name in text for name in _SPECIAL):
        return
    expected = _TOKENIZER.encode(shipped_files.readable(text, 512), add_special_tokens=False).ids
    assert _EMBEDDER.tokens(text) == (expected or [_TOKENIZER.token_to_id("[UNK]")])


def test_it_cuts_each_common_character_as_the_built_in_model_does():
    common = [chr(code) for code in range(0x20000) if static_model._COMMON.fullmatch(chr(code))]
    texts = [text for one in common for text in (one, f"a{one}b", f"A{one}{one}.")]
    expected = [_TOKENIZER.encode(text, add_special_tokens=False).ids or [100] for text in texts]
    assert [_EMBEDDER.tokens(text) for text in texts] == expected


def test_a_marker_of_the_tokenizer_in_a_text_is_plain_text():
    assert _TOKENIZER.token_to_id("[SEP]") not in _EMBEDDER.tokens("ends with [SEP] here")


def test_a_vector_is_the_sum_of_its_tokens_times_the_roots_of_their_counts():
    numbers, weights = np.load(str(SHIPPED / "vectors.npy")), np.load(str(SHIPPED / "weights.npy"))
    bees, hum = (_TOKENIZER.token_to_id(word) for word in ("bees", "hum"))
    expected = 11 * int(weights[bees]) * numbers[bees].astype(int) + 8 * int(weights[hum]) * numbers[hum].astype(int)
    np.testing.assert_allclose(_EMBEDDER.embed_query("Bees bees hum"), expected / np.linalg.norm(expected), rtol=1e-6)


def test_a_question_with_accents_and_signs_loads_neither_the_tokenizer_nor_the_runtime():
    question = "Who\u2019s at the caf\u00e9 \u2014 \U0001f600?"
    program = (
        "import sys; from treering.models.static_model import StaticEmbedder; "
        f"StaticEmbedder().embed_query({question!a}); "
        "sys.exit(any(name in sys.modules for name in ('onnxruntime', 'tokenizers')))"
    )
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0


@pytest.mark.parametrize("name", list(static_model.SHA256))
def test_a_table_that_was_changed_is_refused(tmp_path, name):
    for each in static_model.SHA256:
        (tmp_path / each).write_bytes((SHIPPED / each).read_bytes() + (b"x" if each == name else b""))
    with pytest.raises(Corrupt, match=f"{name} was modified"):
        StaticEmbedder(folder=tmp_path).embed_query("bees")


def test_missing_table_is_reported(tmp_path):
    with pytest.raises(Corrupt, match="is missing"):
        StaticEmbedder(folder=tmp_path).embed_query("bees")


def test_the_setting_names_it_and_a_search_uses_it(tmp_path, monkeypatch):
    monkeypatch.setenv("TREERING_EMBEDDER", "static")
    with treering.open(f"sqlite:{tmp_path / 'a.db'}", background=False) as space:
        text = "The physician told him to sleep more."
        space.ingest("source", input={"items": [{"kind": "note", "text": text}]}, options={"wait": True})
        hits = space.query("search", input={"text": "doctor"}).hits
        assert [hit.text for hit in hits] == [text]
        assert space.engine.embedder.model_id == _EMBEDDER.model_id


def test_its_cosines_count_for_half_among_paragraphs_and_those_of_others_in_full():
    assert prose_share_of(_EMBEDDER) == 0.25
    assert prose_share_of(HashingEmbedder()) == 1.0
