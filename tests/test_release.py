"""Releases: how fragments become a changelog, and that nothing promised breaks without a note."""

import copy
import json
import re
import shutil
import sys
import tomllib
from datetime import date
from pathlib import Path

import pytest

import treering

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "tools"))

import packages  # noqa: E402 - programs of this folder are no package
import promises  # noqa: E402
import release  # noqa: E402

DAY = date(2026, 12, 1)


@pytest.fixture
def tree(tmp_path):
    """What a release reads and writes of this tree, with three fragments."""
    for name in [*release.VERSIONS, "CHANGELOG.md", "mkdocs.yml", "changes/README.md"]:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, tmp_path / name)
    write(tmp_path, "changes/b.fixed.md", "Names are kept.\n")
    write(tmp_path, "changes/a.fixed.md", "A policy is\nread: see [policies](../docs/reference/policy.md).\n")
    write(tmp_path, "changes/c.added.md", "Keys ([how they protect](../SECURITY.md)).\n")
    return tmp_path


def write(tree, name, text):
    (tree / name).parent.mkdir(parents=True, exist_ok=True)
    (tree / name).write_text(text, encoding="utf-8")


def everything(tree):
    return {str(file.relative_to(tree)): file.read_bytes() for file in tree.rglob("*") if file.is_file()}


def test_fragments_become_the_newest_entry_and_a_page_and_are_gone(tree):
    release.release(tree, "91.2.0", DAY)

    changelog = (tree / "CHANGELOG.md").read_text(encoding="utf-8")
    entries = re.findall(r"^## (.+)$", changelog, re.MULTILINE)
    assert entries[0] == "91.2.0 (2026-12-01)"
    assert entries[1:] == re.findall(r"^## (.+)$", (ROOT / "CHANGELOG.md").read_text(encoding="utf-8"), re.MULTILINE)
    entry = changelog.partition("## 91.2.0")[2].partition("\n## ")[0]
    assert entry.partition(")\n\n")[2].strip() == (
        "### Added\n\n- Keys ([how they protect](SECURITY.md)).\n\n"
        "### Fixed\n\n- A policy is read: see [policies](docs/reference/policy.md).\n- Names are kept.\n\n"
        "[Every change](docs/releases/91.2.0.md)."
    )
    page = (tree / "docs/releases/91.2.0.md").read_text(encoding="utf-8")
    assert page.startswith("# Treering 91.2.0\n\n2026-12-01. All 3 changes")
    assert "## Added\n\n- Keys (`how they protect`).\n" in page
    assert "- A policy is read: see [policies](../reference/policy.md).\n" in page
    assert [file.name for file in (tree / "changes").iterdir()] == ["README.md"]
    assert "releases/91.2.0.md" in (tree / "mkdocs.yml").read_text(encoding="utf-8")


def test_a_release_sets_the_version_wherever_it_is(tree):
    release.release(tree, "91.2.0", DAY)

    assert release.current_version(tree) == "91.2.0"
    assert tomllib.loads((tree / "pyproject.toml").read_text(encoding="utf-8"))["project"]["version"] == "91.2.0"
    assert "\nversion: 91.2.0\n" in (tree / "CITATION.cff").read_text(encoding="utf-8")
    assert "rev: v91.2.0\n" in (tree / "docs/howto/check-pull-requests.md").read_text(encoding="utf-8")
    for name in release.VERSIONS:
        then, now = (folder.joinpath(name).read_text(encoding="utf-8") for folder in (ROOT, tree))
        assert now.replace("91.2.0", treering.__version__) == then
    bill = json.loads((tree / packages.BILL).read_text(encoding="utf-8"))
    assert bill["metadata"]["component"]["version"] == "91.2.0"
    assert bill["metadata"]["component"]["purl"] == "pkg:pypi/treering@91.2.0"


def test_the_bill_of_materials_in_the_wheel_is_that_of_this_tree():
    told = packages.bill(ROOT)

    assert (ROOT / packages.BILL).read_text(encoding="utf-8") == told, "run `python tools/packages.py --bill`"
    targets = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["hatch"]["build"]["targets"]
    assert targets["wheel"]["sbom-files"] == [packages.BILL]
    assert packages.BILL in targets["sdist"]["include"], "without it no wheel is built of the source package"


def test_the_bill_of_materials_names_every_model_and_library_that_the_wheel_carries():
    bill = json.loads(packages.bill(ROOT))
    listed = {
        part["name"]: part["hashes"][0]["content"] for one in bill["components"] for part in one.get("components", [])
    }

    others = {".onnx", ".npy"}
    there = [file for file in (ROOT / "src/treering").rglob("*") if file.suffix in others or file.match("*.min.*")]
    there.append(ROOT / "src/treering/models/bge_small_en_v1_5_int8/tokenizer.json")
    assert sorted(listed) == sorted(file.relative_to(ROOT / "src").as_posix() for file in there)
    notices = (ROOT / "THIRD_PARTY_NOTICES.md").read_text(encoding="utf-8")
    assert [name for name, digest in listed.items() if digest not in notices and not name.endswith(".npy")] == []


def test_the_bill_of_materials_names_every_required_package_with_its_range():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    bill = json.loads(packages.bill(ROOT))
    needed = [one for one in bill["components"] if one.get("isExternal")]

    ranges = [one["name"] + one["versionRange"].removeprefix("vers:pypi/").replace("|", ",") for one in needed]
    assert ranges == project["dependencies"]
    (depends,) = bill["dependencies"]
    assert depends["dependsOn"] == [one["bom-ref"] for one in needed]


def test_the_lock_is_of_what_this_tree_asks_for_and_names_the_public_index_alone():
    text = (ROOT / "uv.lock").read_text(encoding="utf-8")
    locked = tomllib.loads(text)
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    (own,) = (one for one in locked["package"] if one["name"] == "treering")

    asked = {(told["name"], told["specifier"]) for told in own["metadata"]["requires-dist"] if "specifier" in told}
    wanted = [*project["dependencies"], *(one for extra in project["optional-dependencies"].values() for one in extra)]
    parts = [re.fullmatch(r"([\w-]+)(?:\[[^]]*\])?([<>=!~].*)?", one).groups() for one in wanted]
    assert asked == {(name.lower(), bounds) for name, bounds in parts if bounds}
    assert set(re.findall(r"https?://([^/\"]+)", text)) == {"pypi.org", "files.pythonhosted.org"}
    sources = [one["source"] for one in locked["package"] if one["name"] != "treering"]
    assert {str(source) for source in sources} == {"{'registry': 'https://pypi.org/simple'}"}


def test_an_image_is_built_of_all_that_a_wheel_is_built_of():
    build = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    project, wheel = build["project"], build["tool"]["hatch"]["build"]["targets"]["wheel"]
    needed = {"pyproject.toml", project["readme"], *project["license-files"], *wheel["sbom-files"], "src"}
    lines = (ROOT / "deploy/Containerfile").read_text(encoding="utf-8").splitlines()
    copied = {name for line in lines if line.startswith("COPY ") for name in line.split()[1:-1]}

    assert needed <= copied


def test_a_summary_is_in_the_changelog_and_the_fragments_on_the_page_alone(tree):
    write(tree, "changes/summary.md", "Keys and [policies](../docs/reference/policy.md).\n")
    write(tree, "changes/long.changed.md", "word " * 600)

    release.release(tree, "91.2.0", DAY)

    changelog = (tree / "CHANGELOG.md").read_text(encoding="utf-8")
    assert "Keys and [policies](docs/reference/policy.md).\n\n[Every change]" in changelog
    assert "Names are kept" not in changelog
    assert "Names are kept" in (tree / "docs/releases/91.2.0.md").read_text(encoding="utf-8")
    assert not (tree / "changes/summary.md").exists()


@pytest.mark.parametrize(
    ("name", "text", "version", "said"),
    [
        ("d.improved.md", "Better.", "91.2.0", "d.improved.md; kinds are added"),
        ("d.md", "Better.", "91.2.0", "d.md"),
        ("d.added.md", " \n", "91.2.0", "d.added.md"),
        ("d.added.md", "word " * 600, "91.2.0", "changes/summary.md"),
        ("d.added.md", "Better.", "0.0.1", "not later than"),
        ("d.added.md", "Better.", "soon", "form X.Y.Z"),
    ],
)
def test_a_release_that_is_not_ready_is_refused_and_changes_nothing(tree, name, text, version, said):
    write(tree, f"changes/{name}", text)
    before = everything(tree)

    with pytest.raises(release.NotReady, match=re.escape(said)):
        release.release(tree, version, DAY)

    assert everything(tree) == before


def test_every_fragment_here_could_be_released():
    if release.fragment_files(ROOT):
        release.read_fragments(ROOT)


def test_every_entry_of_the_changelog_is_read_in_two_minutes_and_the_newest_is_first():
    entries = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8").split("\n## ")[1:]
    versions = [release.number(entry.split()[0]) for entry in entries]

    assert max(len(entry.split()) for entry in entries) <= release.MOST_WORDS + 10
    assert versions == sorted(versions, reverse=True)


def test_nothing_that_the_last_release_promised_is_broken_without_a_note():
    assert promises.broken_without_a_note(frameworks=False) == []


@pytest.mark.nightly
def test_nothing_that_it_promised_about_frameworks_is_broken_without_a_note():
    assert promises.broken_without_a_note() == []


@pytest.fixture(scope="module")
def released():
    return promises.last_release()


METHODS = ("python", "treering.Space", "members")


@pytest.mark.parametrize(
    ("place", "value", "subject", "told"),
    [
        ((*METHODS, "query"), ..., "treering.Space.query", "is gone"),
        (("python", "treering.open"), ..., "treering.open", "is gone"),
        (("python", "treering.open", "kind"), "class", "treering.open", "was a function, is a class"),
        ((*METHODS, "erase"), ["reason?"], "treering.Space.erase", "takes no `ids` any more"),
        ((*METHODS, "erase"), ["reason?", "ids"], "treering.Space.erase", "takes its arguments in another order"),
        ((*METHODS, "erase"), ["ids", "reason"], "treering.Space.erase", "needs `reason`, which could be left out"),
        ((*METHODS, "erase"), ["ids", "reason?", "=by"], "treering.Space.erase", "needs `by`, which is new"),
        ((*METHODS, "erase"), None, "treering.Space.erase", "is no method now"),
        (
            ("python", "treering.Embedder", "members", "embed_images"),
            ["images"],
            "treering.Embedder.embed_images",
            "is asked of who implements it",
        ),
        (("commands", "backup"), ..., "treering backup", "is gone"),
        (("commands", "backup"), ["file!"], "treering backup", "has no --json any more"),
        (("commands", "version"), ["where!"], "treering version", "needs where"),
        (("modes", "query search"), ..., "query search", "is gone"),
        (("modes", "query search", "text"), ..., "query search", "has no field `text` any more"),
        (("modes", "query search", "limit"), True, "query search", "needs `limit`"),
        (("errors", "Conflict conflict"), 9, "Conflict conflict", "its exit code was 4"),
        (("openapi", "paths", "/v1/wiki/query"), ..., "POST /v1/wiki/query", "is gone"),
    ],
)
def test_breaking_change_has_the_name_required_in_notes(released, place, value, subject, told):
    new = copy.deepcopy(released)
    at = new
    for step in place[:-1]:
        at = at[step]
    if value is ...:
        del at[place[-1]]
    else:
        at[place[-1]] = value

    found = promises.breaks(released, new)

    assert f"`{subject}`: {told}" in found
    assert {one.split("`")[1] for one in found} == {subject}
    assert promises.unnoted(found, {subject}) == []


def test_a_contract_that_asks_for_more_or_answers_with_less_breaks_and_one_that_gives_more_does_not():
    def contract(asked, answered):
        sent = {"content": {"application/json": {"schema": {"$ref": "#/components/schemas/Asked"}}}}
        got = {"200": {"content": {"application/json": {"schema": {"$ref": "#/components/schemas/Answered"}}}}}
        return {
            "paths": {"/v1/ask": {"post": {"requestBody": sent, "responses": got}}},
            "components": {"schemas": {"Asked": asked, "Answered": answered}},
        }

    def told(asked, answered):
        none = {"python": {}, "commands": {}, "modes": {}, "errors": {}}
        return promises.breaks({**none, "openapi": old}, {**none, "openapi": contract(asked, answered)})

    text = {"type": "string"}
    asked = {"type": "object", "properties": {"text": text, "mode": {"enum": ["a", "b"]}}, "required": ["text"]}
    answered = {
        "type": "object",
        "properties": {"id": text, "hits": {"type": "array", "items": text}},
        "required": ["id"],
    }
    old = contract(asked, answered)
    more_asked = {**asked, "properties": {**asked["properties"], "limit": {"type": "integer"}}}
    more_answered = {**answered, "properties": {**answered["properties"], "score": {"type": "number"}}}
    fewer_modes = {**asked, "properties": {**asked["properties"], "mode": {"enum": ["a"]}}}
    numbers = {
        **answered,
        "properties": {**answered["properties"], "hits": {"type": "array", "items": {"type": "number"}}},
    }

    assert told(more_asked, more_answered) == []
    assert told({**asked, "required": ["text", "mode"]}, answered) == ["`POST /v1/ask`: the body needs `mode`"]
    assert told(fewer_modes, answered) == ["`POST /v1/ask`: `mode` may not be b any more"]
    assert told(asked, {**answered, "required": []}) == ["`POST /v1/ask`: the body may lack `id`"]
    assert told(asked, {**answered, "properties": {"id": text}}) == ["`POST /v1/ask`: the body has no `hits` any more"]
    assert told(asked, {"anyOf": [answered, {"type": "object", "properties": {"other": text}}]}) == []
    assert told(asked, {"anyOf": [numbers, text]}) == ["`POST /v1/ask`: `hits`, each was string, is number"]
    assert told(asked, numbers) == ["`POST /v1/ask`: `hits`, each was string, is number"]


def test_a_note_names_what_it_breaks_in_backticks_in_a_fragment_of_what_changed(tmp_path):
    write(tmp_path, "a.removed.md", "`treering.Author` is gone.")
    write(tmp_path, "b.added.md", "`treering.Space.query` is new.")

    assert promises.notes(tmp_path) == {"treering.Author"}


def test_promises_are_kept_in_a_form_that_people_can_compare():
    for file in promises.RELEASED.glob("*.json"):
        text = file.read_text(encoding="utf-8")
        assert text.count("\n") > len(json.loads(text))
