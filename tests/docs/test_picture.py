from picture import PICTURE, drawn, lines_of_page


def test_the_picture_shows_what_its_page_shows() -> None:
    assert PICTURE.read_text(encoding="utf-8") == drawn(), "run `python tests/docs/picture.py`"


def test_the_picture_tells_that_a_decision_became_stale() -> None:
    alarms = [line for kind, line in lines_of_page() if kind == "alarm"]

    assert any("Now stale" in line for line in alarms)
    assert any("'Retries are bounded' is stale" in line for line in alarms)
