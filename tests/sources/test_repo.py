import json
import os
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import pytest
from git_scratch import Scratch

from treering.core.errors import InvalidInput, NotFound
from treering.core.evidence import Lines
from treering.extensions.code.repository.repo import RepoAdapter
from treering.ports.adapter import (
    AlreadyRead,
    BranchRead,
    Failed,
    Reading,
    ReadLimits,
    RootRead,
    Skipped,
    SourceDraft,
    Unchanged,
    Vanished,
)

LONG = "".join(f"def step_{n}():\n    return {n}\n\n\n" for n in range(12))


@pytest.fixture
def scratch(tmp_path: Path) -> Scratch:
    return Scratch(tmp_path / "web")


def read(
    target: Path, *, known: AlreadyRead | None = None, limits: ReadLimits | None = None, **options: Any
) -> list[Reading]:
    readings = RepoAdapter().read(
        str(target), known=known or AlreadyRead(), limits=limits or ReadLimits(), options=options
    )
    return [one for one in readings if not isinstance(one, RootRead | BranchRead)]


def by_path(readings: Iterable[Reading]) -> dict[str, Reading]:
    return {one.origin.partition("#")[2]: one for one in readings}


def drafts(readings: Iterable[Reading]) -> dict[str, SourceDraft]:
    return {path: one for path, one in by_path(readings).items() if isinstance(one, SourceDraft)}


def remembered(readings: Iterable[Reading], commit: str | None = None) -> AlreadyRead:
    prints = {one.origin: one.fingerprint for one in readings if isinstance(one, SourceDraft)}
    return AlreadyRead(prints, commit)


def map_of(readings: Iterable[Reading]) -> SourceDraft:
    return drafts(readings)[""]


def commits(draft: Reading) -> set[str | None]:
    assert isinstance(draft, SourceDraft)
    assert draft.segments
    return {one.locator.commit for one in draft.segments if isinstance(one.locator, Lines)}


def test_a_repository_is_read_as_its_map_and_then_a_source_per_file_at_the_commit(scratch):
    commit = scratch.commit({"a.py": LONG, "docs/guide.md": "# Guide\n\nRead me.\n"})
    readings = read(scratch.folder)
    assert [one.origin.partition("#")[2] for one in readings] == ["", "a.py", "docs/guide.md"]
    assert [one.content_type for one in readings] == ["repo_map", "text", "markdown"]
    assert all(isinstance(one, SourceDraft) for one in readings)
    assert commits(readings[1]) == commits(readings[2]) == {commit}


def test_a_file_is_fingerprinted_by_its_git_object(scratch):
    scratch.commit({"a.py": LONG})
    blob = scratch.git("rev-parse", "HEAD:a.py")
    assert drafts(read(scratch.folder))["a.py"].fingerprint == f"git-blob:{blob}"


def test_an_unchanged_repository_is_not_read_again(scratch):
    commit = scratch.commit({"a.py": LONG, "b.md": "# B\n\nText.\n"})
    first = read(scratch.folder)
    for loose in (scratch.folder / ".git/objects").glob("??/*"):
        if scratch.git("cat-file", "-t", loose.parent.name + loose.name) == "blob":
            loose.chmod(0o600)
            loose.write_bytes(loose.read_bytes()[:12])
    again = read(scratch.folder, known=remembered(first, commit))
    assert again == [Unchanged(one.origin, one.fingerprint) for one in first]


def test_only_the_edited_file_is_read_again_and_carries_the_new_commit(scratch):
    scratch.commit({"a.py": LONG, "b.py": LONG})
    first = read(scratch.folder)
    commit = scratch.commit({"b.py": LONG + "DONE = True\n"})
    again = by_path(read(scratch.folder, known=remembered(first)))
    assert isinstance(again["a.py"], Unchanged)
    assert commits(again["b.py"]) == {commit}


def test_an_earlier_commit_can_be_read(scratch):
    first = scratch.commit({"a.py": LONG})
    scratch.commit({"a.py": "x = 1\n", "b.py": "y = 1\n"})
    found = drafts(read(scratch.folder, commit=first[:10]))
    assert set(found) == {"", "a.py"}
    assert commits(found["a.py"]) == {first}
    assert found[""].payload["commit"] == first


def test_an_unknown_commit_is_refused_before_anything_is_read(scratch):
    scratch.commit({"a.py": LONG})
    with pytest.raises(NotFound):
        RepoAdapter().read(str(scratch.folder), known=AlreadyRead(), limits=ReadLimits(), options={"commit": "nowhere"})


def test_a_deleted_file_has_vanished(scratch):
    scratch.commit({"a.py": LONG, "b.py": "b = 1\n"})
    first = read(scratch.folder)
    (scratch.folder / "b.py").unlink()
    scratch.commit()
    again = by_path(read(scratch.folder, known=remembered(first)))
    assert again["b.py"] == Vanished(first[2].origin)


def test_a_moved_file_has_vanished_towards_its_new_name_and_is_read_there(scratch):
    scratch.commit({"a.py": LONG, "b.py": "b = 1\n"})
    first = read(scratch.folder)
    scratch.git("mv", "a.py", "moved.py")
    commit = scratch.commit()
    again = by_path(read(scratch.folder, known=remembered(first)))
    root = first[0].origin
    assert again["a.py"] == Vanished(f"{root}#a.py", moved_to=f"{root}#moved.py")
    assert commits(again["moved.py"]) == {commit}


def test_a_file_moved_and_edited_is_followed_where_the_last_commit_is_known(scratch):
    before = scratch.commit({"a.py": LONG})
    first = read(scratch.folder)
    scratch.git("mv", "a.py", "moved.py")
    scratch.commit({"moved.py": LONG + "DONE = True\n"})
    root = first[0].origin
    followed = by_path(read(scratch.folder, known=remembered(first, before)))
    assert followed["a.py"] == Vanished(f"{root}#a.py", moved_to=f"{root}#moved.py")
    lost = by_path(read(scratch.folder, known=remembered(first, "f" * 40)))
    assert lost["a.py"] == Vanished(f"{root}#a.py")


def test_of_equal_files_each_new_place_is_taken_once_and_the_same_name_wins(scratch):
    scratch.commit({"one/x.py": LONG, "two/y.py": LONG})
    first = read(scratch.folder)
    scratch.git("mv", "one", "three")
    scratch.git("mv", "two", "four")
    scratch.commit()
    moved = [one for one in read(scratch.folder, known=remembered(first)) if isinstance(one, Vanished)]
    root = first[0].origin
    assert moved == [
        Vanished(f"{root}#one/x.py", f"{root}#three/x.py"),
        Vanished(f"{root}#two/y.py", f"{root}#four/y.py"),
    ]


def test_an_empty_file_is_never_mistaken_for_another_that_moved(scratch):
    scratch.commit({"a.py": LONG})
    root = read(scratch.folder)[0].origin
    empty = "git-blob:e69de29bb2d1d6434b8b29ae775ad8c2e48c5391"
    scratch.commit({"new/__init__.py": ""})
    again = read(scratch.folder, known=AlreadyRead({f"{root}#old/__init__.py": empty}))
    assert again[1] == Vanished(f"{root}#old/__init__.py")


def test_links_submodules_large_files_and_lfs_pointers_are_skipped_with_the_reason(scratch, tmp_path):
    other = Scratch(tmp_path / "other")
    other.commit({"b.py": "b = 1\n"})
    scratch.write("large.py", "x = 1\n" * 100)
    scratch.write("model.bin", "version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 9\n")
    (scratch.folder / "link.py").symlink_to("/etc/passwd")
    scratch.git("submodule", "add", "-q", str(other.folder), "sub")
    scratch.commit()
    found = by_path(read(scratch.folder, limits=ReadLimits(max_file_bytes=500)))
    why = {path: one.why for path, one in found.items() if isinstance(one, Skipped)}
    assert why == {
        "large.py": "600 bytes exceed the limit max_file_bytes of 500",
        "link.py": "a symbolic link; links are not followed",
        "model.bin": "a Git LFS pointer; its content is on the server",
        "sub": "another repository (a submodule); read it by itself",
    }


def test_an_object_that_is_missing_or_not_what_its_id_says_fails_alone(scratch):
    scratch.commit({"a.py": LONG, "b.py": "b = 1\n", "c.py": "c = 1\n"})
    objects = {
        name: scratch.folder / ".git/objects" / blob[:2] / blob[2:]
        for name in ("a.py", "b.py", "c.py")
        for blob in [scratch.git("rev-parse", f"HEAD:{name}")]
    }
    objects["a.py"].unlink()
    objects["b.py"].unlink()
    objects["b.py"].write_bytes(objects["c.py"].read_bytes())
    found = by_path(read(scratch.folder))
    assert isinstance(found["a.py"], Failed)
    assert isinstance(found["b.py"], Failed)
    assert isinstance(found["c.py"], SourceDraft)


def test_what_the_repository_marks_as_vendored_or_generated_is_skipped_and_not_on_the_map(scratch):
    scratch.commit(
        {
            ".gitattributes": "lib/** linguist-vendored\nlib/ours.py -linguist-vendored\n"
            "# *.py linguist-vendored\n*_pb2.py linguist-generated=true\n",
            "lib/theirs.go": "package theirs\n",
            "lib/ours.py": LONG,
            "api_pb2.py": LONG,
        }
    )
    readings = read(scratch.folder)
    why = {path: one.why for path, one in by_path(readings).items() if isinstance(one, Skipped)}
    assert why == {
        "lib/theirs.go": "marked linguist-vendored in .gitattributes",
        "api_pb2.py": "marked linguist-generated in .gitattributes",
    }
    assert [one["name"] for one in map_of(readings).payload["languages"]] == ["Python"]


def test_files_over_the_limit_are_reported(scratch):
    scratch.commit({"a.py": "a = 1\n", "b.py": "b = 1\n", "c.py": "c = 1\n"})
    found = by_path(read(scratch.folder, limits=ReadLimits(max_items=2)))
    assert found["c.py"] == Skipped(found[""].origin + "#c.py", "it exceeds the limit max_items of 2")


def test_globs_and_a_subfolder_narrow_the_reading_and_say_nothing_of_the_rest(scratch):
    scratch.commit({"src/a.py": LONG, "src/a_test.py": LONG, "src/b.md": "# B\n\nText.\n", "top.py": LONG})
    first = read(scratch.folder)
    narrow = read(scratch.folder, known=remembered(first), subfolder="src", include="*.py", exclude=["*_test.py"])
    assert [type(one) for one in narrow] == [Unchanged, Unchanged]
    assert set(by_path(narrow)) == {"", "src/a.py"}


def test_a_folder_inside_a_repository_is_read_as_that_part_of_it(scratch):
    scratch.commit({"src/app/a.py": LONG, "src/b.py": LONG, "top.py": LONG})
    inside = read(scratch.folder / "src")
    assert set(by_path(inside)) == {"", "src/app/a.py", "src/b.py"}
    assert set(by_path(read(scratch.folder / "src", subfolder="app"))) == {"", "src/app/a.py"}
    assert inside[0].origin == RepoAdapter().origin(str(scratch.folder))


def test_a_folder_whose_name_begins_with_a_dot_is_read_as_that_folder(scratch):
    scratch.commit({".github/a.py": LONG, "github/b.py": LONG})
    assert set(by_path(read(scratch.folder, subfolder=".github"))) == {"", ".github/a.py"}
    assert set(by_path(read(scratch.folder / ".github"))) == {"", ".github/a.py"}


def test_an_exam_that_is_committed_is_not_read_for_it_would_answer_its_own_questions(scratch):
    scratch.commit(
        {
            "a.py": LONG,
            ".treering/exam/mine.yaml": "questions: []\n",
            "web/.treering/notes.md": "# N\n",
            ".obsidian/a.json": "{}",
        }
    )
    assert set(by_path(read(scratch.folder))) == {"", "a.py"}
    assert set(by_path(read(scratch.folder, worktree=True))) == {"", "a.py"}


@pytest.mark.parametrize(
    "options",
    [
        {"subfolder": "../other"},
        {"subfolder": "/etc"},
        {"subfolder": "nowhere"},
        {"include": 3},
        {"include": ["a", 3]},
        {"worktree": "yes"},
        {"commit": 7},
        {"commit": "HEAD", "worktree": True},
    ],
)
def test_a_bad_option_is_refused_with_a_hint(scratch, options: Mapping[str, Any]):
    scratch.commit({"a.py": LONG})
    with pytest.raises(InvalidInput) as refused:
        read(scratch.folder, **options)
    assert refused.value.hint


def test_options_of_others_are_left_alone(scratch):
    scratch.commit({"a.py": LONG})
    assert len(read(scratch.folder, wait=True)) == 2


def test_a_folder_without_git_is_refused(tmp_path):
    with pytest.raises(InvalidInput) as refused:
        read(tmp_path)
    assert 'mode "path"' in refused.value.hint


def test_a_bare_repository_reads_like_its_work_tree(scratch, tmp_path):
    scratch.commit({"a.py": LONG, "docs/b.md": "# B\n\nText.\n"})
    scratch.git("clone", "-q", "--bare", ".", str(tmp_path / "web.git"))
    bare = drafts(read(tmp_path / "web.git"))
    assert {path: one.fingerprint for path, one in bare.items() if path} == {
        path: one.fingerprint for path, one in drafts(read(scratch.folder)).items() if path
    }
    with pytest.raises(InvalidInput):
        read(tmp_path / "web.git", worktree=True)


def test_a_shallow_clone_and_a_detached_head_read_as_usual(scratch, tmp_path):
    scratch.commit({"a.py": LONG})
    commit = scratch.commit({"a.py": LONG + "DONE = True\n"})
    scratch.git("clone", "-q", "--depth=1", f"file://{scratch.folder}", str(tmp_path / "shallow"))
    shallow = Scratch(tmp_path / "shallow")
    shallow.git("checkout", "-q", "--detach")
    found = drafts(read(tmp_path / "shallow"))
    assert commits(found["a.py"]) == {commit}
    assert (found[""].payload["shallow"], found[""].payload["branch"]) == (True, None)
    assert found[""].payload["hot_spots"] == []


def test_a_repository_without_commits_says_so_and_can_be_read_as_it_is(scratch):
    scratch.write("a.py", LONG)
    root = RepoAdapter().origin(str(scratch.folder))
    why = "the repository has no commit yet; the option `worktree` (--worktree) reads uncommitted files"
    assert read(scratch.folder) == [Skipped(root, why)]
    found = drafts(read(scratch.folder, worktree=True))
    assert set(found) == {"", "a.py"}
    assert commits(found["a.py"]) == {None}


def test_by_default_uncommitted_changes_are_not_read_and_the_map_warns(scratch):
    scratch.commit({"a.py": LONG})
    assert map_of(read(scratch.folder)).warnings == ()
    scratch.write("a.py", "x = 1\n")
    scratch.write("b.py", "y = 1\n")
    readings = read(scratch.folder)
    assert set(by_path(readings)) == {"", "a.py"}
    assert "Uncommitted" in map_of(readings).warnings[0]


def test_the_work_tree_is_read_as_it_is_and_only_unchanged_files_carry_the_commit(scratch):
    commit = scratch.commit({"kept.py": LONG, "edited.py": LONG, "gone.py": LONG, ".gitignore": "*.log\n"})
    scratch.write("edited.py", "x = 1\n")
    scratch.write("fresh.py", "y = 1\n")
    scratch.write("noise.log", "z\n")
    (scratch.folder / "gone.py").unlink()
    (scratch.folder / "link").symlink_to("/etc/passwd")
    found = by_path(read(scratch.folder, worktree=True))
    assert set(found) == {"", ".gitignore", "edited.py", "fresh.py", "kept.py", "link"}
    assert commits(found["kept.py"]) == {commit}
    assert commits(found["edited.py"]) == commits(found["fresh.py"]) == {None}
    assert isinstance(found["link"], Skipped)


def test_a_file_read_as_it_lies_is_unchanged_once_it_is_committed(scratch):
    scratch.commit({"a.py": LONG})
    scratch.write("a.py", "x = 1\n")
    first = read(scratch.folder, worktree=True)
    assert read(scratch.folder, worktree=True, known=remembered(first)) == [
        Unchanged(o.origin, o.fingerprint) for o in first
    ]
    scratch.commit()
    again = by_path(read(scratch.folder, known=remembered(first)))
    assert isinstance(again["a.py"], Unchanged)
    assert isinstance(again[""], SourceDraft)


def test_what_is_in_the_work_tree_is_held_to_the_same_limits(scratch):
    scratch.commit({"a.py": "a = 1\n"})
    scratch.write("large.py", "x = 1\n" * 100)
    scratch.write("inner/b.py", "b = 1\n")
    (scratch.folder / "a.py").unlink()
    (scratch.folder / "a.py").symlink_to(scratch.folder / "inner")
    found = by_path(read(scratch.folder, limits=ReadLimits(max_file_bytes=500), worktree=True))
    assert isinstance(found["inner/b.py"], SourceDraft)
    why = {path: one.why for path, one in found.items() if isinstance(one, Skipped)}
    assert why == {
        "a.py": "a symbolic link; links are not followed",
        "large.py": "600 bytes exceed the limit max_file_bytes of 500",
    }


def test_a_folder_replaced_by_a_link_is_not_followed_out_of_the_work_tree(scratch, tmp_path):
    scratch.commit({"docs/a.md": "# A\n\nText.\n"})
    (tmp_path / "private").mkdir()
    (tmp_path / "private/a.md").write_text("# Mine\n\nSecret.\n")
    (scratch.folder / "docs/a.md").unlink()
    (scratch.folder / "docs").rmdir()
    (scratch.folder / "docs").symlink_to(tmp_path / "private")
    readings = read(scratch.folder, worktree=True)
    assert [type(one) for one in readings] == [SourceDraft, Skipped]
    assert "Secret." not in repr(readings)


def test_a_repository_lying_in_the_work_tree_is_not_read_with_it(scratch):
    scratch.commit({"a.py": LONG})
    Scratch(scratch.folder / "nested").commit({"b.py": LONG})
    found = by_path(read(scratch.folder, worktree=True))
    assert isinstance(found["nested"], Skipped)
    assert "nested/b.py" not in found


@pytest.mark.skipif(os.name == "nt" or sys.platform == "darwin", reason="file systems that refuse such names")
def test_a_file_name_that_is_no_text_gets_a_printable_stable_origin(scratch):
    (Path(os.fsdecode(os.fsencode(scratch.folder) + b"/caf\xe9.py"))).write_text(LONG)
    scratch.write("line\nbreak.py", LONG)
    lying = drafts(read(scratch.folder, worktree=True))
    scratch.commit()
    committed = drafts(read(scratch.folder))
    assert set(lying) == set(committed) == {"", "caf\\xe9.py", "line\\nbreak.py"}
    assert read(scratch.folder, known=remembered(committed.values())) == [
        Unchanged(one.origin, one.fingerprint) for one in committed.values()
    ]
    json.dumps([one.origin for one in committed.values()]).encode("ascii")


def test_the_origin_is_the_remote_without_credentials_else_the_path(scratch):
    scratch.commit({"a.py": LONG})
    origin = RepoAdapter().origin
    assert origin(str(scratch.folder)) == f"repo:{scratch.folder.as_posix()}"
    scratch.git("remote", "add", "origin", "https://ada:s3cret@example.org/acme/web.git")
    assert origin(str(scratch.folder)) == "repo:https://example.org/acme/web.git"
    assert "s3cret" not in repr(read(scratch.folder))


def test_a_root_origin_holds_no_hash_sign_of_its_own(tmp_path):
    sharp = Scratch(tmp_path / "C#")
    sharp.commit({"a.py": LONG})
    assert RepoAdapter().origin(str(sharp.folder)).endswith("/C%23")


def test_files_read_without_redaction_are_read_again_with_it(scratch):
    scratch.commit({"a.py": LONG})
    open_reading = read(scratch.folder, redact_secrets=False)
    again = by_path(read(scratch.folder, known=remembered(open_reading)))
    assert isinstance(again["a.py"], SourceDraft)


def test_count_reports_how_many_results_a_reading_will_have(scratch):
    scratch.commit({"a.py": LONG, "b.py": LONG, "c.md": "# C\n\nText.\n"})
    assert RepoAdapter().count(str(scratch.folder), {}) == len(read(scratch.folder)) == 4
    assert RepoAdapter().count(str(scratch.folder), {"include": "*.py"}) == 3


@pytest.fixture
def acme(scratch: Scratch) -> Scratch:
    scratch.git("remote", "add", "origin", "git@example.org:acme/web.git")
    scratch.commit(
        {
            "README.md": "# Web\n\n[![badge](x)](y)\n\nServes the shop\nof Acme.\n",
            "LICENSE": "MIT License\n\nPermission is hereby granted, free of charge, to any person obtaining a copy",
            "CONTRIBUTING.md": "# Contributing\n\nAsk first.\n",
            "docs/adr/0001-queue.md": "# Use a queue\n\nYes.\n",
            "pyproject.toml": '[project]\nname = "web"\n[project.scripts]\nweb = "web.cli:main"\n',
            "src/web/__init__.py": '"""The shop."""\n',
            "src/web/cli.py": LONG,
            "src/web/cart/__init__.py": '"""\n====\nCart\n====\n\nMore.\n"""\n',
            "src/web/cart/lines.py": LONG,
            "java/src/main/java/org/acme/App.java": "class App {}\n",
            "tests/unit/test_cart.py": LONG,
            "api/openapi.yaml": "openapi: 3.1.0\n",
            "api/shop.proto": 'syntax = "proto3";\n',
        }
    )
    scratch.commit({"src/web/cli.py": LONG + "A = 1\n"})
    scratch.commit({"src/web/cli.py": LONG + "A = 2\n"}, author="Bob")
    return scratch


def test_the_map_reports_what_the_repository_is(acme):
    draft = map_of(read(acme.folder))
    told = draft.payload
    assert (draft.kind, draft.content_type, draft.title) == ("repo", "repo_map", "acme/web")
    assert (told["branch"], told["remote"]) == ("main", "example.org:acme/web.git")
    assert (told["readme"], told["licence"]) == ("README.md", {"path": "LICENSE", "spdx": "MIT"})
    assert told["languages"][0]["name"] == "Python"
    assert {"name": "web", "at": "web.cli:main", "in": "pyproject.toml"} in told["entry_points"]
    assert [(one["path"], one["changes"], one["authors"]) for one in told["hot_spots"]] == [("src/web/cli.py", 3, 2)]
    assert {"path": "src/", "files": 4, "bytes": pytest.approx(1000, rel=1)} in told["layout"]
    json.dumps(told)


def test_the_map_is_one_text_a_person_can_read(acme):
    (segment,) = map_of(read(acme.folder)).segments
    assert segment.role == "prose"
    assert "Serves the shop of Acme." in segment.text
    assert "Modules: java/src/main/java/org/acme, src/web, src/web/cart, tests\n" in segment.text
    assert "Most changed lately: src/web/cli.py (3)" in segment.text


def test_the_map_names_the_repository_its_modules_documents_and_apis(acme):
    nodes = {f"{node.kind}:{node.slug}": node for node in map_of(read(acme.folder)).nodes}
    assert {key: node.part_of for key, node in nodes.items()} == {
        "repo:acme-web": None,
        "module:acme-web/java/src/main/java/org/acme": "repo:acme-web",
        "module:acme-web/src/web": "repo:acme-web",
        "module:acme-web/src/web/cart": "module:acme-web/src/web",
        "module:acme-web/tests": "repo:acme-web",
        "document:acme-web/README.md": "repo:acme-web",
        "document:acme-web/CONTRIBUTING.md": "repo:acme-web",
        "document:acme-web/docs/adr/0001-queue.md": "repo:acme-web",
        "api:acme-web/api/openapi.yaml": "repo:acme-web",
        "api:acme-web/api/shop.proto": "repo:acme-web",
    }
    cart = nodes["module:acme-web/src/web/cart"]
    assert cart.name == "web/cart"
    assert "web.cart" in cart.aliases
    assert cart.summary == "Cart (Python, 2 files, src/web/cart/)"


def test_the_map_repeats_no_secret_of_the_files_it_quotes(scratch):
    secret = "AKIA" + "ABCDEFGHIJ234567"
    scratch.commit({"README.md": f"# Web\n\nLog in with {secret}.\n"})
    assert secret not in repr(map_of(read(scratch.folder)))
    assert secret in repr(map_of(read(scratch.folder, redact_secrets=False)))


def test_the_map_is_drawn_of_the_whole_repository_whatever_is_selected(acme):
    whole, part = map_of(read(acme.folder)), map_of(read(acme.folder, include="*.md"))
    assert part == whole


def test_a_broken_manifest_declares_nothing(scratch):
    scratch.commit({"pyproject.toml": "[project\n", "package.json": "[" * 9000, "Cargo.toml": "bin = 3\n"})
    assert map_of(read(scratch.folder)).payload["entry_points"] == []


def test_a_large_repository_has_a_bounded_map(scratch):
    scratch.commit({f"p{n:03}/sub{n}/m.py": "x = 1\n" for n in range(120)} | {"docs/a.md": "# A\n"})
    draft = map_of(read(scratch.folder, include="docs/"))
    assert len(draft.payload["modules"]) == 60
    assert len(json.dumps(draft.payload)) < 8_000


def test_many_stars_in_a_glob_do_not_make_matching_slow(scratch):
    scratch.commit({"a" * 200 + ".py": LONG, "b.py": LONG})
    assert set(by_path(read(scratch.folder, include=["*a" * 30 + "*b", "b.py"]))) == {"", "b.py"}


def test_a_later_glob_takes_back_what_an_earlier_one_asks_for(scratch):
    scratch.commit({"src/a.py": LONG, "src/gen/b.py": LONG, "src/gen/deep/c.py": LONG})
    assert set(by_path(read(scratch.folder, include=["src/", "!gen/"]))) == {"", "src/a.py"}
