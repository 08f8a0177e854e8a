"""An option that does not belong to what is recorded is refused by its name."""

import pytest
from cli_stage import Stage


@pytest.mark.parametrize(
    ("arguments", "option"),
    [
        (("--kind", "preference", "--statement", "Tabs", "--subject", "me"), "--subject"),
        (("--kind", "task", "--evidence", "src:01kefz3m8qd5v2n7x4t9r6w0ya seg_4t9r6w0yad5v2"), "--evidence"),
    ],
)
def test_option_of_another_kind_is_refused_by_its_name(stage: Stage, arguments: tuple[str, ...], option: str) -> None:
    stage.done("init")
    done = stage.run("crystallize", "--title", "x", *arguments)
    assert done.code == 2
    assert f"{option} cannot be given here." in done.err
    assert f"Give {option}" not in done.err


def test_empty_question_is_said_to_be_empty(stage: Stage) -> None:
    stage.done("init")
    assert "input.task: it is empty" in stage.run("query", "").err
