"""What evidence written as text may not reach: files outside, other scopes, and unbounded work."""

import os
import re
from dataclasses import replace

import pytest

from space_parts import note, open_space, read
from treering.core.errors import Denied, InvalidInput, NotFound, TreeringError
from treering.core.scope import Boundary
from treering.extensions.server.confined_ledger import confined
from treering.verbs import catalog
from treering.verbs.envelope import WRITES, Envelope
from treering.verbs.evidence.notation import MAX_CHARS
from treering.verbs.evidence.resolving import MAX_SEGMENTS, MAX_TEXTS

WALRUS = "The walrus retries uploads."
NAMES = re.compile("walrus|badger|readme|secret|absent", re.IGNORECASE)
READING = replace(WRITES, reads_files=True)


def cite(engine, *evidence, scope="/", granted=WRITES, **fields):
    given = {"kind": "decision", "title": "T", "question": "Q?", "outcome": "O", "evidence": list(evidence), **fields}
    return catalog.call(engine, "crystallize", Envelope(mode="knowledge", scope=scope, input=given), granted=granted)


def refusal(engine, text, **call):
    """Return the error for some evidence, with the same word for what is there and for what is not."""
    with pytest.raises(TreeringError) as caught:
        cite(engine, text, **call)
    return type(caught.value), NAMES.sub("NAME", f"{caught.value.message} {caught.value.hint}")


@pytest.fixture
def space(tmp_path):
    (tmp_path / "files").mkdir()
    (tmp_path / "files/readme.md").write_text("# Readme\n\nRead me.\n")
    (tmp_path / "secret.md").write_text("Private.\n")
    with open_space(files=tmp_path / "files") as space:
        yield space


@pytest.mark.parametrize("elsewhere", ["/b", "/"])
@pytest.mark.parametrize("text", [f'"{WALRUS}"', "walrus.md", "walrus.md:1", "walrus.md::Walrus", "Walrus"])
def test_confined_caller_cannot_probe_other_scopes(space, elsewhere, text):
    note(space, WALRUS, origin="walrus.md", title="Walrus", scope=elsewhere)
    engine = confined(space.engine, Boundary("/a"))

    unknown = text.replace("walrus", "badger").replace("Walrus", "Badger")
    assert refusal(engine, text, scope="/a") == refusal(engine, unknown, scope="/a")


def test_confined_caller_cannot_cite_ids_of_other_scopes(space):
    ids = note(space, WALRUS, scope="/b")
    with pytest.raises(NotFound):
        cite(confined(space.engine, Boundary("/a")), f"{ids['source_id']} {ids['segment_id']}", scope="/a")


def test_quote_known_here_and_elsewhere_is_cited_here(space):
    note(space, WALRUS, origin="theirs", scope="/b")
    ours = note(space, WALRUS, origin="ours", scope="/a")
    (one,) = cite(confined(space.engine, Boundary("/a")), f'"{WALRUS}"', scope="/a").evidence
    assert one.source_id == ours["source_id"]


@pytest.mark.parametrize("name", ["readme.md", "readme.md:1", "readme.md::Readme", "{root}/secret.md", "../secret.md"])
def test_caller_without_files_cannot_probe_them(space, tmp_path, name):
    there = name.format(root=tmp_path)
    missing = there.replace("readme", "absent").replace("secret", "absent")
    assert refusal(space.engine, there) == refusal(space.engine, missing)
    assert not space.query("search", "/", {"text": "Read me"}).hits


@pytest.mark.parametrize("name", ["../{}.md", "{root}/{}.md", "../{}.md:1", "../files/../{}.md::Private", "link/{}.md"])
def test_caller_cannot_probe_files_outside_the_folder(space, tmp_path, name):
    (tmp_path / "files/link").symlink_to(tmp_path)
    there, missing = (name.format(one, root=tmp_path) for one in ("secret", "absent"))
    given = refusal(space.engine, there, granted=READING)
    assert given[0] is Denied
    assert given == refusal(space.engine, missing, granted=READING)


@pytest.mark.parametrize("kind", ["pipe", "folder", "link to a pipe"])
def test_special_files_are_not_read_as_evidence(space, tmp_path, kind):
    place = tmp_path / "files/odd"
    if kind == "folder":
        place.mkdir()
    else:
        os.mkfifo(place)
    if kind == "link to a pipe":
        (tmp_path / "files/alias").symlink_to(place)
        place = tmp_path / "files/alias"
    with pytest.raises(NotFound):
        cite(space.engine, place.name, granted=READING)


def test_secret_in_cited_lines_is_redacted_everywhere(space, tmp_path):
    token = "ghp_" + "a1B2" * 9
    (tmp_path / "files/env.md").write_text(f"# Env\n\ntoken = {token}\n")
    report = cite(space.engine, "env.md:3", granted=READING)
    assert token not in report.model_dump_json()
    assert token not in read(space, report.evidence[0].source_id).model_dump_json()


@pytest.mark.parametrize(
    "text",
    [
        "notes:1:1-999999999",
        "notes#L1-L999999999",
        "notes:" + "1" * 3_900,
        "notes#" + "9" * 3_900,
        "src:" + "#" * 3_900,
        ":1" * 1_900,
        "#" * 3_900 + "1",
        "a::" * 1_300,
        '"' + "a b " * 900 + '"',
        "x" * (MAX_CHARS + 1),
        "nul\x00.md:1",
    ],
)
def test_odd_evidence_is_refused_and_changes_nothing(space, text):
    note(space, "One line.", origin="notes:1")
    before = space.engine.ledger.sequence()
    with pytest.raises(TreeringError):
        cite(space.engine, text, granted=READING)
    assert space.engine.ledger.sequence() == before


def test_number_of_texts_is_bounded(space):
    with pytest.raises(InvalidInput, match=f"{MAX_TEXTS} are allowed"):
        cite(space.engine, *(["readme.md:1"] * (MAX_TEXTS + 1)), granted=READING)


def test_lines_of_too_many_passages_are_refused(space, tmp_path):
    (tmp_path / "files/long.md").write_text("".join(f"# Part {n}\n\n{'words ' * 60}\n\n" for n in range(60)))
    with pytest.raises(InvalidInput, match=f"may span {MAX_SEGMENTS}"):
        cite(space.engine, "long.md:1-230", granted=READING)
    (whole,) = cite(space.engine, "long.md", granted=READING).evidence
    assert len(whole.segment_ids) == MAX_SEGMENTS


@pytest.mark.parametrize("value", [7.5, True, {"a": 1}, [None], [["x"]]])
def test_evidence_that_is_no_text_is_named(space, value):
    with pytest.raises(InvalidInput, match="evidence_refs"):
        cite(space.engine, because=value)


def test_names_from_files_are_quoted_in_hints(space, tmp_path):
    (tmp_path / "files/odd.py").write_text("def rate_limit():\n    pass\n")
    with pytest.raises(InvalidInput) as caught:
        cite(space.engine, "odd.py::rate_limits", granted=READING)
    assert '"rate\\_limit"' in caught.value.hint or '"rate_limit"' in caught.value.hint


@pytest.mark.parametrize(
    "call", [{"evidence": ["readme.md:3", "absent.md:1"]}, {"evidence": ["readme.md:3"], "payload": {"colour": 1}}]
)
def test_refused_call_reads_no_file(space, call):
    before = space.engine.ledger.sequence()
    with pytest.raises(TreeringError):
        cite(space.engine, granted=READING, **call)
    assert space.engine.ledger.sequence() == before
