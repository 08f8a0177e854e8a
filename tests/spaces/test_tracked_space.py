"""A space that came with a repository is not opened unasked."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

import treering
from sources.git_scratch import Scratch
from space_parts import note
from treering.core.errors import Denied
from treering.surfaces.cli import run
from treering.system.tracked_space import refuse_tracked


@pytest.fixture
def web(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Scratch:
    monkeypatch.setenv("TREERING_DATA_DIR", str(tmp_path / "data"))
    monkeypatch.setenv("TREERING_BACKGROUND", "0")
    monkeypatch.delenv("TREERING_TRUST", raising=False)
    monkeypatch.delenv("TREERING_SPACE", raising=False)
    scratch = Scratch(tmp_path / "web")
    scratch.commit({"a.md": "# A\n", "z.md": "# Z\n", ".treering-notes/a.md": "# N\n"})
    monkeypatch.chdir(scratch.folder)
    return scratch


def tracked(scratch: Scratch, *files: str) -> Path:
    for name in files:
        scratch.write(name, "x")
        scratch.git("add", "-f", name)
    return scratch.folder / ".treering" / "treering.db"


def plain(_scratch: Scratch) -> None:
    pass


def with_shared_names(scratch: Scratch) -> None:
    scratch.git("update-index", "--index-version", "4")


def split(scratch: Scratch) -> None:
    scratch.git("update-index", "--split-index")


def with_further_flags(scratch: Scratch) -> None:
    scratch.write(".treering-extra", "x")
    scratch.git("add", "-N", ".treering-extra")


@pytest.mark.parametrize("form", [plain, with_shared_names, split, with_further_flags])
@pytest.mark.parametrize(
    "name", ["treering.db", "treering.db.ready/pack.json", "treering.db.sync/git/config", "treering.db-wal"]
)
def test_a_tracked_space_is_refused(web: Scratch, name: str, form: Callable[[Scratch], None]) -> None:
    space = tracked(web, f".treering/{name}", "b.md")
    form(web)
    with pytest.raises(Denied, match="is part of the repository") as refused:
        refuse_tracked(space)
    assert f"git rm -r --cached .treering/{name}" in (refused.value.hint or "")


def test_a_tracked_space_of_a_sha256_repository_is_refused(tmp_path: Path) -> None:
    scratch = Scratch.__new__(Scratch)
    scratch.folder = tmp_path / "web"
    scratch.folder.mkdir()
    scratch.git("init", "-q", "--object-format=sha256")
    tracked(scratch, "packages/one/.treering/treering.db")
    with pytest.raises(Denied):
        refuse_tracked(scratch.folder / "packages" / "one" / ".treering" / "treering.db")


def test_a_tracked_link_in_place_of_the_folder_is_refused(web: Scratch, tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    (web.folder / ".treering").symlink_to(tmp_path / "elsewhere")
    web.git("add", "-f", ".treering")
    with pytest.raises(Denied):
        refuse_tracked(web.folder / ".treering" / "treering.db")


@pytest.mark.parametrize("form", [plain, with_shared_names, split, with_further_flags])
def test_exams_policies_and_spaces_of_other_folders_are_no_reason(
    web: Scratch, form: Callable[[Scratch], None]
) -> None:
    space = tracked(
        web,
        ".treering/exam/questions.yaml",
        ".treering/treering.db.policy.toml",
        "docs/.treering/treering.db",
        "x.treering/treering.db",
    )
    form(web)
    refuse_tracked(space)
    with pytest.raises(Denied):
        refuse_tracked(web.folder / "docs" / ".treering" / "treering.db")


@pytest.mark.parametrize("damage", [b"", b"DIRC", b"DIRC\0\0\0\x04\0\0\0\x09.treering", b".treering" * 9])
def test_a_damaged_index_is_no_reason(web: Scratch, damage: bytes) -> None:
    space = tracked(web, "b.md")
    (web.folder / ".git" / "index").write_bytes(damage)
    refuse_tracked(space)


def test_every_surface_refuses_until_the_user_trusts(
    web: Scratch, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["init"]) == 0
    with treering.open(background=False) as space:
        note(space, "The gulls eat heliotrope.", origin="g.md")
    web.git("add", "-f", ".treering/treering.db")
    capsys.readouterr()
    assert run(["query", "what do the gulls eat"]) == 5
    assert "--trust" in capsys.readouterr().err
    for opens in (treering.open, treering.open_ledger):
        with pytest.raises(Denied, match="is part of the repository"):
            opens(".treering/treering.db")
    for words in (["query", "gulls", "--json", "--trust"], ["--trust", "query", "gulls", "--json"]):
        assert run(words) == 0
        assert "heliotrope" in json.dumps(json.loads(capsys.readouterr().out))
    assert run(["query", "gulls"]) == 5  # it held for that command
    assert run(["query", "--", "--trust"]) == 5  # a question
    monkeypatch.setenv("TREERING_TRUST", "1")
    treering.open(background=False).close()
