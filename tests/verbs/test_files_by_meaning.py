"""A file adds up what its passages say of the matter: by their words, and by their meaning where there are vectors."""

import numpy as np
import pytest

from space_parts import open_space
from treering.testing.fakes import HashingEmbedder

QUESTION = "Where is the engine of a car serviced?"
MEANT = {"vehicle": "car", "motor": "engine", "garage": "serviced", "overhauled": "serviced"}


class KnowsWhatIsMeant(HashingEmbedder):
    """Takes words that mean the same for the same word."""

    def embed_query(self, text):
        for word, meant in MEANT.items():
            text = text.replace(word, meant)
        return super().embed_query(text)

    def embed_documents(self, texts):
        return np.stack([self.embed_query(text) for text in texts]) if texts else super().embed_documents(texts)


@pytest.fixture
def space(tmp_path):
    """A file that says it in other words, and one that has the words and speaks of something else."""
    of_words = (
        '"""Where a car is parked."""\n\n\ndef park(car, engine):\n    """Park the car, and stop its engine."""\n'
    )
    of_meaning = "".join(
        f'def {name}(vehicle):\n    """Say where the motor of a vehicle is {done}."""\n    return {call}\n\n\n'
        for name, done, call in (
            ("place_of_motor", "overhauled", "'hall ' + vehicle.motor.name * 2 + 'second row on the left side'"),
            ("day_of_motor", "overhauled, and when", "vehicle.calendar.first(lambda day: day.is_free and day.open)"),
            ("bill_of_motor", "overhauled, and the bill for it", "sum(part.price for part in vehicle.motor.parts)"),
        )
    )
    (tmp_path / "parking.py").write_text(of_words)
    (tmp_path / "garages.py").write_text(of_meaning)
    with open_space(embedder=KnowsWhatIsMeant(256)) as opened:
        opened.ingest("path", input={"path": str(tmp_path)})
        yield opened


def first_files(space, **options):
    hits = space.query("search", input={"text": QUESTION}, options=options).hits
    return list(dict.fromkeys(hit.title for hit in hits))


def test_a_file_that_says_it_in_other_words_comes_first_once_there_are_vectors(space):
    assert first_files(space, semantic=False)[0] == "parking.py"
    space.embed_pending()
    assert first_files(space)[0] == "garages.py"


def test_without_vectors_words_alone_add_up(space):
    assert first_files(space) == first_files(space, semantic=False)
