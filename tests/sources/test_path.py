import os
import random
import socket
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from treering.core.errors import InvalidInput
from treering.ports.adapter import AlreadyRead, Failed, Reading, ReadLimits, Skipped, SourceDraft, Unchanged, Vanished
from treering.sources.path import PathAdapter
from treering.sources.reading.folder import FoundFile, parse_patterns, walk

ADAPTER = PathAdapter()


def read(
    target: Path,
    known: AlreadyRead | None = None,
    limits: ReadLimits | None = None,
    options: Mapping[str, Any] | None = None,
) -> list[Reading]:
    return list(
        ADAPTER.read(str(target), known=known or AlreadyRead(), limits=limits or ReadLimits(), options=options or {})
    )


def tree(root: Path, files: Mapping[str, str]) -> Path:
    for name, text in files.items():
        file = root / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8")
    return root


def names(root: Path, readings: list[Reading]) -> list[str]:
    return [reading.origin.removeprefix(f"file:{root.resolve().as_posix()}/") for reading in readings]


def known_of(readings: list[Reading]) -> AlreadyRead:
    return AlreadyRead({one.origin: one.fingerprint for one in readings if isinstance(one, SourceDraft)})


def test_a_folder_gives_a_source_per_file_in_the_order_of_names(tmp_path: Path) -> None:
    tree(tmp_path, {"b.md": "# B\n\nText.", "a/z.txt": "z", "a/b.txt": "b", "C.txt": "c"})
    readings = read(tmp_path)
    assert names(tmp_path, readings) == ["C.txt", "a/b.txt", "a/z.txt", "b.md"]
    assert all(isinstance(reading, SourceDraft) for reading in readings)
    assert readings == read(tmp_path)


def test_origins_are_the_root_and_the_path_below_it(tmp_path: Path) -> None:
    tree(tmp_path, {"a/note.md": "Text."})
    root = f"file:{tmp_path.resolve().as_posix()}"
    assert ADAPTER.origin(str(tmp_path)) == root
    assert [one.origin for one in read(tmp_path)] == [f"{root}/a/note.md"]
    assert [one.origin for one in read(tmp_path / "a" / "note.md")] == [f"{root}/a/note.md"]


def test_segments_cite_the_path_below_the_root(tmp_path: Path) -> None:
    (draft,) = read(tree(tmp_path, {"a/note.md": "Text."}))
    assert isinstance(draft, SourceDraft)
    assert draft.segments[0].locator.cite() == "a/note.md#L1-L1"


def test_what_is_no_path_is_refused_with_a_hint(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    for target in (str(tmp_path / "missing"), str(tmp_path / "pipe"), "x" * 5_000, "a\0b"):
        with pytest.raises(InvalidInput) as refused:
            ADAPTER.read(target, known=AlreadyRead(), limits=ReadLimits(), options={})
        assert refused.value.hint
        assert len(refused.value.message) < 400


def test_a_wrong_option_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput):
        read(tmp_path, options={"redact_secrets": "no"})


def test_it_counts_what_it_will_report(tmp_path: Path) -> None:
    tree(tmp_path, {"a.txt": "a", "b/c.txt": "c", ".gitignore": "*.log\n", "d.log": "d"})
    assert ADAPTER.count(str(tmp_path), {}) == len(read(tmp_path)) == 3
    assert ADAPTER.count(str(tmp_path / "a.txt"), {}) == 1


def test_what_gitignore_files_omit_is_not_read(tmp_path: Path) -> None:
    tree(
        tmp_path,
        {
            ".gitignore": "*.log\nbuild/\n/only-here.txt\ndata/**\n!data/keep.txt\n!\n",
            **dict.fromkeys(("a.log", "build/x.txt", "only-here.txt", "data/x.txt", "data/keep.txt"), "x"),
            **dict.fromkeys(("sub/only-here.txt", "sub/b.log", "sub/c.tmp", "sub/deep/c.tmp", "c.tmp"), "x"),
            "sub/.gitignore": "*.tmp\n!b.log\n",
        },
    )
    assert names(tmp_path, read(tmp_path)) == [
        *(".gitignore", "c.tmp", "data/keep.txt", "sub/.gitignore", "sub/b.log", "sub/only-here.txt")
    ]


def test_some_folders_are_never_read(tmp_path: Path) -> None:
    folders = (".git", ".obsidian", ".treering", ".venv", "a/node_modules", "a/__pycache__")
    tree(tmp_path, {**{f"{folder}/x.txt": "x" for folder in folders}, "a/x.txt": "x", ".gitignore": "!.venv\n"})
    assert names(tmp_path, read(tmp_path)) == [".gitignore", "a/x.txt"]


@pytest.mark.parametrize("seed", range(12))
def test_the_files_are_those_git_would_list(tmp_path: Path, seed: int) -> None:
    chance = random.Random(seed)
    patterns = [
        *("a", "a/", "/a", "*.log", "!d.log", "build/", "build/*", "!build/keep", "build/**", "**/b", "a/**/b"),
        *("!keep/", "*", "!*/", "/*", "[ab]", "[!a]", "# c", "a/*", "!a/b", "?", "**", "*e*p", "*.txt ", "\\!x"),
    ]

    def grow(folder: Path, depth: int) -> None:
        for name in chance.sample(["a", "b", "c.txt", "d.log", "build", "keep"], 4):
            if "." not in name and depth < 2 and chance.random() < 0.7:
                (folder / name).mkdir()
                grow(folder / name, depth + 1)
            else:
                (folder / name).write_text("x")
        if depth == 0 or chance.random() < 0.4:
            (folder / ".gitignore").write_text("\n".join(chance.choices(patterns, k=4)) + "\n")

    grow(tmp_path, 0)
    subprocess.run(["git", "init", "-q", str(tmp_path)], check=True)
    listing = ["git", "-C", str(tmp_path), "-c", "core.excludesFile=", "ls-files", "-oz", "--exclude-standard"]
    listed = subprocess.run(listing, check=True, capture_output=True, text=True).stdout.split("\0")
    assert [entry.relative for entry in walk(tmp_path) if isinstance(entry, FoundFile)] == sorted(
        filter(None, listed), key=lambda name: name.split("/")
    )


def test_no_pattern_makes_matching_slow_enough_to_matter() -> None:
    # A pattern that backtracks over its stars would not finish on these.
    for glob, path in (("*a" * 40 + "b", "a" * 250), ("**/a/" * 20 + "b", "a/" * 500 + "c")):
        assert not any(pattern.regex.fullmatch(path) for pattern in parse_patterns([glob]))


def test_an_unchanged_file_is_reported_by_its_fingerprint(tmp_path: Path) -> None:
    tree(tmp_path, {"a.txt": "a", "b.txt": "b"})
    before = known_of(read(tmp_path))
    (tmp_path / "b.txt").write_text("changed")
    first, second = read(tmp_path, before)
    assert isinstance(first, Unchanged)
    assert isinstance(second, SourceDraft)


def test_what_is_gone_is_reported_first_and_where_it_went(tmp_path: Path) -> None:
    tree(tmp_path, {"a/one.txt": "one", "two.txt": "two", "three.txt": "three", "empty": ""})
    before = known_of(read(tmp_path))
    (tmp_path / "a" / "one.txt").rename(tmp_path / "uno.txt")
    (tmp_path / "two.txt").unlink()
    (tmp_path / "empty").rename(tmp_path / "void")
    readings = read(tmp_path, before)
    root = ADAPTER.origin(str(tmp_path))
    assert readings[:3] == [
        Vanished(f"{root}/a/one.txt", moved_to=f"{root}/uno.txt"),
        Vanished(f"{root}/empty"),
        Vanished(f"{root}/two.txt"),
    ]
    assert [type(reading) for reading in readings[3:]] == [Unchanged, SourceDraft, SourceDraft]


def test_of_two_copies_the_one_of_the_same_name_is_where_it_went(tmp_path: Path) -> None:
    tree(tmp_path, {"old/readme.txt": "same"})
    before = known_of(read(tmp_path))
    (tmp_path / "old" / "readme.txt").unlink()
    tree(tmp_path, {"a.txt": "same", "new/readme.txt": "same"})
    assert read(tmp_path, before)[0] == Vanished(
        f"{ADAPTER.origin(str(tmp_path))}/old/readme.txt", f"{ADAPTER.origin(str(tmp_path))}/new/readme.txt"
    )


def test_a_file_that_is_ignored_from_now_on_is_gone(tmp_path: Path) -> None:
    tree(tmp_path, {"a.txt": "a", "b.log": "b"})
    before = known_of(read(tmp_path))
    (tmp_path / ".gitignore").write_text("*.log\n")
    assert Vanished(f"{ADAPTER.origin(str(tmp_path))}/b.log") in read(tmp_path, before)


def test_other_roots_are_left_alone(tmp_path: Path) -> None:
    tree(tmp_path, {"docs/a.txt": "a", "docs-old/b.txt": "b"})
    origin = ADAPTER.origin(str(tmp_path / "docs"))
    known = AlreadyRead({f"{origin}-old#b.txt": "1", f"{origin}-old/b.txt": "2", origin: "3"})
    assert not [one for one in read(tmp_path / "docs", known) if isinstance(one, Vanished)]


def test_a_single_file_that_is_gone_is_reported(tmp_path: Path) -> None:
    tree(tmp_path, {"a.txt": "a"})
    before = known_of(read(tmp_path / "a.txt"))
    (tmp_path / "a.txt").unlink()
    assert read(tmp_path / "a.txt", before) == [Vanished(ADAPTER.origin(str(tmp_path / "a.txt")))]


def test_links_are_not_followed_in_or_out(tmp_path: Path) -> None:
    outside = tree(tmp_path / "outside", {"secret.txt": "secret"})
    root = tree(tmp_path / "root", {"a.txt": "a", "sub/b.txt": "b"})
    for name, target in (("in", root / "a.txt"), ("out", outside / "secret.txt"), ("up", outside), ("loop", root)):
        (root / name).symlink_to(target)
    (root / "sub" / "broken").symlink_to("nowhere")
    (root / "self").symlink_to("self")
    found = dict(zip(names(root, read(root)), read(root), strict=True))
    assert sorted(name for name, one in found.items() if isinstance(one, SourceDraft)) == ["a.txt", "sub/b.txt"]
    whys = {name: one.why for name, one in found.items() if isinstance(one, Skipped)}
    assert sorted(whys) == ["in", "loop", "out", "self", "sub/broken", "up"]
    assert "out of the folder" in whys["out"]
    assert "a.txt" in whys["in"]
    assert "secret" not in repr(found)


def test_a_file_that_became_a_link_is_gone(tmp_path: Path) -> None:
    tree(tmp_path, {"a.txt": "a", "b.txt": "b"})
    before = known_of(read(tmp_path))
    (tmp_path / "b.txt").unlink()
    (tmp_path / "b.txt").symlink_to("/etc/hostname")
    readings = read(tmp_path, before)
    assert [type(one) for one in readings] == [Vanished, Unchanged]


def test_pipes_and_sockets_are_never_opened(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    os.mkfifo(tmp_path / "pipe")
    monkeypatch.chdir(tmp_path)  # a socket's path may not be long
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind("socket")
        readings = read(tmp_path)
    assert [one.why for one in readings if isinstance(one, Skipped)] == ["a named pipe", "a socket"]


def test_a_huge_file_is_skipped_without_being_read(tmp_path: Path) -> None:
    with (tmp_path / "huge.bin").open("wb") as file:
        file.truncate(1_000_000_000)
    (only,) = read(tmp_path)
    assert isinstance(only, Skipped)
    assert "1,000,000,000 bytes exceed the limit max_file_bytes" in only.why


def test_items_over_the_limit_are_named(tmp_path: Path) -> None:
    tree(tmp_path, {"a.txt": "a", "b.txt": "b", "c.txt": "c"})
    readings = read(tmp_path, limits=ReadLimits(max_items=2))
    assert [type(one) for one in readings] == [SourceDraft, SourceDraft, Skipped]
    assert isinstance(readings[2], Skipped)
    assert "max_items" in readings[2].why


def test_a_file_that_vanishes_on_the_way_fails_alone(tmp_path: Path) -> None:
    tree(tmp_path, {"a.txt": "a", "b.txt": "b", "c.txt": "c"})
    readings = ADAPTER.read(str(tmp_path), known=AlreadyRead(), limits=ReadLimits(), options={})
    first = next(readings)
    (tmp_path / "b.txt").unlink()
    second, third = readings
    assert [type(one) for one in (first, second, third)] == [SourceDraft, Failed, SourceDraft]
    assert isinstance(second, Failed)
    assert "no such file" in second.why


def test_a_pipe_put_instead_of_a_file_is_not_waited_for(tmp_path: Path) -> None:
    tree(tmp_path, {"a.txt": "a", "b.txt": "b"})
    readings = ADAPTER.read(str(tmp_path), known=AlreadyRead(), limits=ReadLimits(), options={})
    next(readings)
    (tmp_path / "b.txt").unlink()
    os.mkfifo(tmp_path / "b.txt")
    assert [type(one) for one in readings] == [Skipped]


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_what_may_not_be_read_fails_alone_and_is_not_mistaken_for_gone(tmp_path: Path) -> None:
    tree(tmp_path, {"a.txt": "a", "closed/b.txt": "b", "locked.txt": "c"})
    before = known_of(read(tmp_path))
    (tmp_path / "closed").chmod(0)
    (tmp_path / "locked.txt").chmod(0)
    readings = read(tmp_path, before)
    (tmp_path / "closed").chmod(0o700)
    assert [type(one) for one in readings] == [Unchanged, Failed, Failed]


def test_a_folder_that_cannot_be_listed_hides_what_is_below_it_and_nothing_is_mistaken_for_gone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tree(tmp_path, {"a.txt": "a", "closed/b.txt": "b"})
    before = known_of(read(tmp_path))
    listing = os.scandir

    def refusing(path: Path) -> Any:
        if Path(path).name == "closed":
            raise PermissionError(13, "Permission denied")
        return listing(path)

    monkeypatch.setattr(os, "scandir", refusing)  # permissions do not bind root, who may run the tests
    readings = read(tmp_path, before)
    assert [type(one) for one in readings] == [Unchanged, Failed]
    assert isinstance(readings[1], Failed)
    assert readings[1].why == "permission denied"


def test_a_name_that_is_no_text_fails_alone(tmp_path: Path) -> None:
    try:
        (Path(os.fsdecode(os.fsencode(tmp_path) + b"/caf\xe9.txt"))).write_text("x")
    except OSError:
        pytest.skip("this file system takes only names that are text")
    tree(tmp_path, {"z.txt": "z"})
    readings = read(tmp_path)
    assert [type(one) for one in readings] == [Failed, SourceDraft]
    assert all(one.origin.encode() for one in readings)


def test_a_very_deep_folder_is_walked(tmp_path: Path) -> None:
    deep = tmp_path
    for _ in range(150):
        deep = deep / "d"
    deep.mkdir(parents=True)
    (deep / "a.txt").write_text("a")
    assert len(read(tmp_path)) == 1


def test_secrets_are_redacted_unless_asked_otherwise(tmp_path: Path) -> None:
    tree(tmp_path, {"a.txt": "key AKIA" + "IOSFODNN7EXAMPLE"})
    hidden, shown = read(tmp_path)[0], read(tmp_path, options={"redact_secrets": False})[0]
    assert isinstance(hidden, SourceDraft)
    assert isinstance(shown, SourceDraft)
    assert hidden.segments[0].text == "key [redacted:aws_access_key]"
    assert hidden.fingerprint == shown.fingerprint
    assert "AKIA" in shown.segments[0].text
