import os
from pathlib import Path

import pytest

from treering.core.errors import InvalidInput, NotFound
from treering.extensions.client.config_file import read_memory_config
from treering.extensions.code.manifest_format import manifest_facts
from treering.extensions.documents.bounded_yaml import MAX_VALUES, parse_yaml, read_data_file
from treering.extensions.exams.exam import read_questions
from treering.extensions.exams.results import RUNS, last_run
from treering.extensions.projects.ticket_files import read_tickets
from treering.sources.reading.bounded_files import check_inside, parse_json, parse_toml, read_text_file
from treering.spaces.policy_and_anchor import read_policy

BOMB = "\n".join(
    [
        "a0: &a0 [x, x, x, x, x, x, x, x, x]",
        *(f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]" for n in range(1, 12)),
    ]
)
SECRET = "root:x:0:0:secret words: [unclosed"


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        (BOMB, "more than 100,000 values"),
        ("a: &a {x: 1}\nb: &b\n  <<: [*a, *a]\n" + "c: {<<: [" + "*b," * 40_000 + "*b]}", "more than 100,000 values"),
        ("a: &a [*a]", "nested more than 64 levels deep"),
        ("[" * 100_000, "nest"),
        ("".join(f"{' ' * depth}a:\n" for depth in range(200)), "nested more than 64 levels deep"),
        (f"a: {'9' * 5_000}", "number of more than 400 digits"),
        (f"a: 1{':59' * 100_000}", "number of more than 400 digits"),
        ("a: 2026-99-99", "month must be in"),
        (f"[{'1,' * 2 * MAX_VALUES}1]", "more than 100,000 values"),
        ("a: \x01", "characters that YAML does not allow"),
        ("a: !!python/object/apply:os.getcwd []", "could not determine a constructor"),
        (SECRET, "at line 2"),
    ],
)
def test_yaml_out_of_bounds_is_refused(text: str, problem: str) -> None:
    with pytest.raises(ValueError, match=problem) as refused:
        parse_yaml(text)
    assert "secret" not in str(refused.value)


def test_yaml_with_a_few_aliases_is_read() -> None:
    assert parse_yaml("base: &b {x: 1}\nc: {<<: *b, y: 2}")["c"] == {"x": 1, "y": 2}  # type: ignore[index]


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("[" * 100_000, "nested more than 64 levels deep"),
        ("[" * 70 + "]" * 70, "nested more than 64 levels deep"),
        ("9" * 5_000, "number or date out of range"),
        ('{"a": secret}', "at line 1, column 7"),
        ('{"a": 1 // secret\n}', "a comment at line 1, column 9"),
    ],
)
def test_json_out_of_bounds_is_refused(text: str, problem: str) -> None:
    with pytest.raises(ValueError, match=problem) as refused:
        parse_json(text)
    assert "secret" not in str(refused.value)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        (".".join(["a"] * 100_000) + " = 1", "a key of more than 64 parts"),
        ("x = {" + ".".join(['"a"'] * 90) + " = 1}", "a key of more than 64 parts"),
        (f"a = {'[' * 100_000}", "nested more than 64 levels deep"),
        (f"a = {'9' * 5_000}", "number or date out of range"),
        (SECRET, "at line 1"),
    ],
)
def test_toml_out_of_bounds_is_refused(text: str, problem: str) -> None:
    with pytest.raises(ValueError, match=problem):
        parse_toml(text)
    assert not [*manifest_facts("pyproject.toml", text)]


def test_long_lines_of_versions_are_read() -> None:
    versions = [f"package{number}==1.2.3" for number in range(300)]
    assert parse_toml(f"needs = {versions}")["needs"] == versions


def linked(folder: Path, name: str, target: Path) -> Path:
    folder.mkdir(exist_ok=True)
    (folder / name).symlink_to(target)
    return folder / name


def test_links_out_of_the_folder_are_refused(tmp_path: Path) -> None:
    secret = tmp_path / "secret.yaml"
    secret.write_text(SECRET)
    file = linked(tmp_path / "exam", "q.yaml", secret)
    for read in (lambda: read_text_file(file, below=file.parent), lambda: read_questions(file.parent)):
        with pytest.raises(InvalidInput, match="a link to a place outside") as refused:
            read()
        assert "secret words" not in str(refused.value)
    linked(tmp_path / "exam", RUNS, secret)
    with pytest.raises(InvalidInput, match="a link to a place outside"):
        last_run(tmp_path / "exam", below=tmp_path / "exam")
    with pytest.raises(InvalidInput, match="a link to a place outside"):
        check_inside(linked(tmp_path / "exam", "loose", tmp_path / "new"), tmp_path / "exam")


def test_a_linked_folder_is_refused_below_the_project(tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "q.yaml").write_text(SECRET)
    exam = linked(tmp_path / "project", "exam", elsewhere)
    with pytest.raises(InvalidInput, match="a link to a place outside"):
        read_questions(exam, below=tmp_path / "project")


def test_links_inside_the_folder_are_followed(tmp_path: Path) -> None:
    (tmp_path / "real.txt").write_text("words")
    assert read_text_file(linked(tmp_path, "link", tmp_path / "real.txt"), below=tmp_path) == "words"


READERS = {
    "an exam": ("q.yaml", read_questions),
    "tickets": ("tickets.yaml", read_tickets),
    "a policy": ("x.toml", read_policy),
    "a client": ("client.yaml", read_memory_config),
    "data": ("data.json", read_data_file),
}


@pytest.mark.parametrize("name", READERS)
def test_every_reader_refuses_devices_pipes_and_long_numbers(tmp_path: Path, name: str) -> None:
    file, read = READERS[name]
    (tmp_path / "device").mkdir()
    device = linked(tmp_path / "device", file, Path("/dev/zero"))
    (tmp_path / "pipe").mkdir()
    os.mkfifo(tmp_path / "pipe" / file)
    long = tmp_path / file
    long.write_text(f"a = {'9' * 5_000}" if file.endswith(".toml") else f'{{"a": {"9" * 5_000}}}')
    for place in (device, tmp_path / "pipe" / file, long):
        with pytest.raises((InvalidInput, NotFound, OSError)):
            read(place)


def test_defaults_of_a_client_are_read_once_each(tmp_path: Path) -> None:
    for number in range(9):
        (tmp_path / f"c{number}.yaml").write_text(f"defaults: [{', '.join([f'c{number + 1}'] * 30)}]\n")
    (tmp_path / "c9.yaml").write_text("backend: in_memory\n")
    assert read_memory_config(tmp_path / "c0.yaml").backend == "in_memory"
    (tmp_path / "up.yaml").write_text("defaults: [../c9]\n")
    with pytest.raises(InvalidInput, match="not a list of names"):
        read_memory_config(tmp_path / "up.yaml")
