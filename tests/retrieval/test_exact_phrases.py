import pytest

import treering

MESSAGE = "The context is not finalized"


@pytest.fixture
def space(tmp_path):
    with treering.open(f"sqlite:{tmp_path / 'space.db'}", background=False) as space:
        for number in range(4):
            uses = "\n".join(f"    context.finalized_{name} = context" for name in "abc")
            (tmp_path / f"context_{number}.py").write_text(f"def context_{number}(context):\n{uses}\n")
        (tmp_path / "serve.py").write_text(
            f"def serve(answer):\n    if not answer:\n        raise Error('{MESSAGE}')\n"
        )
        space.add(tmp_path)
        yield space


def first_path(space, query):
    return space.search(query)[0].path


def test_search_finds_pasted_message_first(space):
    assert first_path(space, MESSAGE).endswith("serve.py")


def test_search_finds_quoted_message_first(space):
    assert first_path(space, f'"{MESSAGE}"').endswith("serve.py")


def test_search_shows_phrase_in_explanation(space):
    hits = space.query("search", input={"text": MESSAGE}, options={"explain": True}).hits
    assert [hit.place.rpartition("/")[2].partition("#")[0] for hit in hits if "exact" in hit.explain["arms"]] == [
        "serve.py"
    ]


def test_search_ignores_phrase_in_many_passages(tmp_path):
    with treering.open(f"sqlite:{tmp_path / 'space.db'}", background=False) as space:
        for number in range(12):
            (tmp_path / f"part_{number}.py").write_text(
                f"def part_{number}():\n    # see how to run the tests\n    pass\n"
            )
        space.add(tmp_path)
        hits = space.query("search", input={"text": "run the tests"}, options={"explain": True}).hits
        assert hits
        assert not any("exact" in hit.explain["arms"] for hit in hits)


def test_search_finds_quote_first_in_notes(tmp_path):
    with treering.open(f"sqlite:{tmp_path / 'space.db'}", background=False) as space:
        for number in range(4):
            space.add(note=f"The lamp of the keeper, lamp {number}, was lit by the keeper of the lamp.")
        space.add(note="Nobody saw the keeper light the lamp on Sunday.")
        assert "Sunday" in space.search('"light the lamp"')[0].text
