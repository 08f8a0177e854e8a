"""A folder of a repository is read without what git ignores there, wherever the rule is."""

from pathlib import Path

import pytest
from git_scratch import Scratch

from treering.sources.git.ignoring import rules_around
from treering.sources.reading.access import AnyFile, files_below
from treering.sources.reading.folder import FoundFile, walk

FILES = (
    "draft.md",
    "docs/a.md",
    "docs/b.log",
    "docs/secret-c.md",
    "docs/build/d.md",
    "docs/x/draft.md",
    "docs/x/z.log",
)


@pytest.fixture
def web(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Scratch:
    monkeypatch.setenv("GIT_CONFIG_NOSYSTEM", "1")
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", str(tmp_path / "gitconfig"))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "home"))
    scratch = Scratch(tmp_path / "web")
    for name in FILES:
        scratch.write(name, "# Words\n")
    return scratch


def read(folder: Path) -> list[str]:
    found = walk(folder, rules_around(folder, AnyFile()))
    return [entry.relative for entry in found if isinstance(entry, FoundFile)]


def test_a_folder_is_read_without_what_the_repository_excludes(web: Scratch) -> None:
    web.write(".git/info/exclude", "secret*.md\r\n/docs/build/\n*.log\n!z.log\n")
    assert read(web.folder) == ["docs/a.md", "docs/x/draft.md", "docs/x/z.log", "draft.md"]
    assert read(web.folder / "docs") == ["a.md", "x/draft.md", "x/z.log"]
    assert read(web.folder / "docs" / "x") == ["draft.md", "z.log"]


@pytest.mark.parametrize("configured", [True, False])
def test_a_folder_is_read_without_what_the_user_excludes(web: Scratch, tmp_path: Path, configured: bool) -> None:
    if configured:
        (tmp_path / "gitconfig").write_text(f"[core]\n\texcludesFile = {tmp_path / 'mine'}\n")
    file = tmp_path / "mine" if configured else tmp_path / "home" / "git" / "ignore"
    file.parent.mkdir(exist_ok=True, parents=True)
    file.write_text("/docs/build\n*.log\ndraft.md\n")
    assert read(web.folder / "docs") == ["a.md", "secret-c.md"]


def test_a_nearer_rule_decides(web: Scratch, tmp_path: Path) -> None:
    (tmp_path / "home" / "git").mkdir(parents=True)
    (tmp_path / "home" / "git" / "ignore").write_text("*.md\n")
    web.write(".git/info/exclude", "!draft.md\n")
    web.write("docs/.gitignore", "!a.md\n/x/draft.md\n")
    assert read(web.folder) == ["docs/.gitignore", "docs/a.md", "docs/b.log", "docs/x/z.log", "draft.md"]
    assert read(web.folder / "docs" / "x") == ["z.log"]


def test_a_rule_of_a_folder_above_holds(web: Scratch) -> None:
    web.write(".gitignore", "docs/build/\n*.log\n")
    assert read(web.folder / "docs") == ["a.md", "secret-c.md", "x/draft.md"]


@pytest.mark.parametrize("rule", ["build/", "/docs/build", "docs"])
def test_an_ignored_folder_is_read_when_it_is_named(web: Scratch, rule: str) -> None:
    web.write(".git/info/exclude", f"{rule}\nd.md\n")
    assert read(web.folder / "docs" / "build") == ["d.md"]


def test_the_repository_names_no_file_to_exclude(web: Scratch, tmp_path: Path) -> None:
    (tmp_path / "its").write_text("*.md\n")
    web.git("config", "core.excludesFile", str(tmp_path / "its"))
    assert "draft.md" in read(web.folder)


def test_rules_outside_of_what_may_be_read_are_left_alone(web: Scratch) -> None:
    web.write(".git/info/exclude", "*.md\n")
    below = files_below(web.folder / "docs")
    assert rules_around(web.folder / "docs", below).sets == ()
    (web.folder / ".git" / "info" / "exclude").unlink()
    (web.folder / ".git" / "info" / "exclude").symlink_to("/dev/zero")
    assert "draft.md" in read(web.folder)
