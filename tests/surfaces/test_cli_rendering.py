import io

import pytest
from rich.console import Console

from space_parts import note, open_space
from treering.core.characters import short_id
from treering.retrieval.search.packing import Citation, ContextPack, PackItem
from treering.surfaces.cli.printing import IndentedLine, line, show
from treering.surfaces.cli.rendering import render
from treering.surfaces.cli.rendering_changes import render_erasure
from treering.verbs.lint.lint import LintReport
from treering.verbs.lint.survey import Finding
from treering.verbs.query.context import ContextReport

SOURCE = "src:01kefz0000000000000000abcd"
TIME = "2026-01-01T00:00:00Z"


def printed(lines: list[IndentedLine], *, terminal: bool, width: int = 80) -> str:
    file = io.StringIO()
    console = Console(file=file, force_terminal=terminal, width=width, color_system=None, highlight=False)
    show(console, lines)
    return file.getvalue()


def pack_report(text: str) -> ContextReport:
    item = PackItem(
        section="sources", object_id=SOURCE, kind="note", status="active", title="A", text=text, citations=("[1]",)
    )
    pack = ContextPack(
        id="ctx:1",
        task="do it",
        summary="Known.",
        scope="/",
        items=(item,),
        citations=(Citation(mark="[1]", object_id=SOURCE, place="a.md#L1-L2"),),
        generated_at=TIME,
        expires_at=TIME,
        budget={},
    )
    return ContextReport(verb="query", mode="context", scope="/", pack=pack, text="FENCED")


def test_erasure_names_texts_with_the_same_words_by_title_and_scope() -> None:
    with open_space() as space:
        first, *_ = [
            note(space, "Ada likes green cheese from Rome.", title=f"Note {at}", origin=str(at), scope=f"/users/{at}")
            for at in range(13)
        ]
        receipt = space.with_actor("ada", channel="user").erase([first["source_id"]])
        out = printed([*render_erasure(receipt, space.engine.ledger)], terminal=False)
    assert len(receipt.repeated_in) == 12
    assert out.count("The same words are also in") == 10
    assert 'also in: "Note 1" in /users/1. Erase it, too' in out
    assert "And in 2 more texts" in out


def test_on_a_terminal_lines_wrap_inside_their_indent() -> None:
    out = printed([line("word " * 40, indent=4)], terminal=True, width=40)
    assert all(row.startswith("    ") and len(row) <= 40 for row in out.splitlines())


def test_wrapped_line_continues_below_its_text() -> None:
    out = printed([line("     12  ", "word " * 18, hang=9)], terminal=True, width=40).splitlines()
    assert out[0].startswith("     12  word")
    assert [row[:13] for row in out[1:]] == [" " * 9 + "word"] * 2
    assert all(len(row) <= 40 for row in out)


def test_in_a_pipe_lines_stay_whole() -> None:
    assert printed([line("word " * 40, indent=4)], terminal=False).splitlines() == [("    " + "word " * 40).rstrip()]


def test_empty_lines_of_a_text_are_kept() -> None:
    assert printed([line("a\n\nb", indent=2)], terminal=False) == "  a\n\n  b\n"


def test_stored_text_cannot_steer_the_terminal() -> None:
    out = printed([line("\x1b]0;owned\x07 \x9b2J \u202eabc [red]x[/red]")], terminal=True)
    assert out == "\\x1b]0;owned\\x07 \\x9b2J \\u202eabc [red]x[/red]\n"


def test_a_context_pack_is_readable_and_cited() -> None:
    report = pack_report("Line one.\n\nLine two.")
    out = printed(list(render(report)), terminal=False)
    assert "SOURCES\nA\n  [1] a.md:1-2\n  Line one.\n\n  Line two.\n" in out
    detailed = printed(list(render(report, verbose=True)), terminal=False)
    assert "  Line two.\n  src:01kefz0000000000000000abcd\n" in detailed


def test_for_a_model_the_fenced_form_is_given() -> None:
    assert printed(list(render(pack_report("x"), fenced=True)), terminal=False) == "FENCED\n"


def test_findings_come_worst_first_with_their_fix() -> None:
    findings = tuple(
        Finding(rule=rule, severity=severity, ids=("know:1",), explanation=f"It is {rule}.", fix_summary=fix)
        for rule, severity, fix in (("stale", "warning", "Verify it."), ("dangling", "error", ""))
    )
    report = LintReport(verb="lint", mode="structure", scope="/", findings=findings, counts={"stale": 2, "dangling": 1})
    out = printed(list(render(report)), terminal=False)
    assert out.index("1  error: ") < out.index("2  warning: ")
    assert "   fix: Verify it.\n" in out
    assert "1 more. Show them with --limit 3." in out


def test_many_warnings_are_cut_and_counted() -> None:
    report = pack_report("x").model_copy(update={"warnings": tuple(f"w{n}" for n in range(20))})
    out = printed(list(render(report)), terminal=False)
    assert "12 more warnings; --json shows them" in out


@pytest.mark.parametrize("mode", ["brief", "page", "context"])
def test_people_see_short_ids(mode: str) -> None:
    with open_space(channel="user") as space:
        identity = space.rule("Retries are bounded").id
        report = space.query(mode, "/", {"page": {"id": identity}, "context": {"task": "Retries"}}.get(mode, {}))
    shown, full, fenced = (
        printed(list(render(report, **options)), terminal=False)
        for options in ({}, {"verbose": True}, {"fenced": True})
    )
    assert short_id(identity) in shown
    assert identity not in shown
    assert identity in full
    assert identity in fenced
