"""Evidence as people write it: resolved to the segments that contain it, with the lines quoted."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sources.git_scratch import Scratch
from space_parts import note, open_space, read
from treering.core.errors import Denied, InvalidInput, NotFound
from treering.verbs.evidence.notation import (
    LinesOf,
    PassageOf,
    Quote,
    SourceCalled,
    SymbolOf,
    read_notation,
)
from treering.verbs.ingest.known import repointed

CODE = '''\
"""Retries."""

LIMIT = 3


class Retry:
    """Tries again."""

    def limit(self):
        return LIMIT

    def wait(self, attempt):
        return 2**attempt
'''
DOC = "# Retries\n\nA call is tried three times.\n\n# Waiting\n\nThe pause doubles each time.\n"


@pytest.fixture
def repository(tmp_path, monkeypatch):
    made = Scratch(tmp_path / "acme")
    made.commit({"src/retry.py": CODE, "docs/retry.md": DOC, "docs/other/retry.md": "# Other\n\nNothing.\n"})
    monkeypatch.chdir(made.folder)
    return made


@pytest.fixture
def space(repository):
    with open_space() as space:
        space.ingest("repo", "/", {"path": str(repository.folder)})
        yield space


def decide(space, *evidence, **options):
    given = {"kind": "decision", "title": "T", "status": "active", "question": "Q?", "outcome": "O"}
    given["because"] = list(evidence)
    return space.crystallize("knowledge", "/", given, options)


def resolved(space, text):
    (one,) = decide(space, text).evidence
    return one


def hint_of(error):
    return error.value.hint


@pytest.mark.parametrize(
    ("text", "notation"),
    [
        ("src/a.py:10-14", LinesOf("src/a.py", 10, 14)),
        ("src/a.py:10", LinesOf("src/a.py", 10, 10)),
        ("src/a.py#L10-L14", LinesOf("src/a.py", 10, 14)),
        ("a b.md#L3 @ 1f3c5a7e9b1d", LinesOf("a b.md", 3, 3, "1f3c5a7e9b1d")),
        ("src/lib.rs::Pool::get", SymbolOf("src/lib.rs", "Pool.get")),
        ("src:01k seg_9", PassageOf("src:01k", "seg_9")),
        ("src:01k#seg_9", PassageOf("src:01k", "seg_9")),
        ('"a sentence: with 12"', Quote("a sentence: with 12")),
        ("discussion:7#12", SourceCalled("discussion:7", 12)),
        ("https://example.org:80", SourceCalled("https://example.org:80")),
        ("minutes:2026-11", SourceCalled("minutes:2026-11")),
        ("ticket:0", SourceCalled("ticket:0")),
        ("README.md", SourceCalled("README.md")),
    ],
)
def test_evidence_notation_reads(text, notation):
    assert read_notation(text) == notation


@pytest.mark.parametrize("text", ["", "  ", "a.py:0", "a.py:9-3"])
def test_evidence_notation_refuses(text):
    with pytest.raises(InvalidInput):
        read_notation(text)


@pytest.mark.parametrize("text", ["src/retry.py:9-10", "./src/retry.py#L9-L10", "src/retry.py::Retry.limit"])
def test_evidence_names_lines_of_code(space, text):
    one = resolved(space, text)
    assert one.quote == "    def limit(self):\n        return LIMIT"
    assert one.place.startswith("src/retry.py#L9-L10 @ ")
    assert not one.uncommitted


@pytest.mark.parametrize("name", ["Kakoune::Pool::get", "Pool::get", "get"])
def test_symbol_with_double_colons_names_its_definition(repository, space, name):
    steps = "".join(f"    take_step_{number}(m_size);\n" for number in range(30))
    methods = "".join(f"int Pool::{method}()\n{{\n{steps}    return {method}_;\n}}\n\n" for method in ("get", "put"))
    code = f"namespace Kakoune\n{{\n\n{methods}}}\n"
    repository.commit({"src/pool.cc": code})
    space.ingest("repo", input={"path": str(repository.folder)})
    assert "return get_" in space.show(f"src/pool.cc::{name}").text


@pytest.mark.parametrize("name", ["Retry.limit", "limit()", "Retry::limit"])
def test_symbol_that_one_file_defines_needs_no_path(space, name):
    assert resolved(space, name).short_place == "src/retry.py:9-10"
    shown = space.query("page", input={"name": name})
    assert (shown.object["title"], "return LIMIT" in shown.text) == ("src/retry.py", True)


def test_symbol_of_several_files_names_them(space, repository):
    repository.commit({"src/again.py": CODE})
    space.ingest("repo", input={"path": str(repository.folder)})
    for read_symbol in (resolved, lambda space, name: space.query("page", input={"name": name})):
        with pytest.raises(InvalidInput, match="2 files define") as error:
            read_symbol(space, "Retry.limit")
        assert "src/again.py::Retry.limit" in hint_of(error)
        assert "src/retry.py::Retry.limit" in hint_of(error)


@pytest.mark.parametrize("name", ["src/retry.py", "src/retry.py:3", "src/retry.py::Retry"])
def test_shown_text_states_that_its_file_changed(space, repository, name):
    def notes():
        page, expanded = space.query("page", input={"name": name}), space.query("expand", input={"ids": [name]})
        return {page.note, expanded.items[0].note}

    commit = repository.git("rev-parse", "HEAD").strip()[:12]
    assert notes() == {""}
    (repository.folder / "src/retry.py").write_text(CODE + "\n# Written today.\n")
    assert notes() == {f"as of commit {commit}; the file has changed since"}
    (repository.folder / "src/retry.py").unlink()
    assert notes() == {f"as of commit {commit}; the file no longer exists"}


def test_evidence_is_stored_with_the_decision(space):
    report = decide(space, "src/retry.py:3", "docs/retry.md:3")
    (identity,) = [one for one in report.ids if one.startswith("know:")]
    stored = [(ref.source_id, ref.segment_id) for ref in read(space, identity).evidence_refs]
    assert stored == [(one.source_id, segment) for one in report.evidence for segment in one.segment_ids]


def test_evidence_may_be_a_whole_file(space):
    assert resolved(space, "docs/retry.md").quote.endswith("The pause doubles each time.")


def test_evidence_may_be_a_quoted_sentence(space):
    assert resolved(space, '"The pause  doubles each time."').place.startswith("docs/retry.md#L")


@pytest.mark.parametrize(
    ("quote", "place", "lines"),
    [
        ("return 2**attempt", "src/retry.py:13", "        return 2**attempt"),
        ("def limit(self): return LIMIT", "src/retry.py:9-10", "    def limit(self):\n        return LIMIT"),
        ("a call IS tried", "docs/retry.md:3", "A call is tried three times."),
    ],
)
def test_quote_is_bound_to_its_lines(space, quote, place, lines):
    report = decide(space, f'"{quote}"')
    assert report.evidence[0].short_place == place
    (ref,) = space.engine.ledger.get(report.ids[0]).evidence_refs
    assert ref.quote(space.engine.ledger.segment(ref.source_id, ref.segment_id)) == lines


def test_quoted_line_survives_a_change_beside_it(space, repository):
    known = decide(space, '"return 2**attempt"').ids[0]
    repository.commit(
        {"src/retry.py": CODE.replace("Tries again", "Tries once more").replace("LIMIT = 3", "LIMIT = 4")}
    )
    space.ingest("repo", "/", {"path": str(repository.folder)})
    assert space.engine.ledger.get(known).status == "active"
    repository.commit({"src/retry.py": CODE.replace("2**attempt", "3**attempt")})
    assert space.ingest("repo", "/", {"path": str(repository.folder)}).staled == (known,)


def test_quote_found_twice_in_a_passage_is_ambiguous(space):
    with pytest.raises(InvalidInput, match="2 places contain 'def'") as error:
        decide(space, '"def"')
    assert '"src/retry.py:9", "src/retry.py:12"' in hint_of(error)


def test_evidence_may_be_an_origin(space):
    cited = note(space, "The limit was raised.", origin="ticket:123")
    assert resolved(space, "ticket:123").source_id == cited["source_id"]


def test_evidence_is_read_from_the_callers_folder(space, repository, monkeypatch):
    monkeypatch.chdir(repository.folder / "docs")
    assert resolved(space, "retry.md:3").quote == "A call is tried three times."
    assert resolved(space, "src/retry.py:3").quote == "LIMIT = 3"


def test_evidence_ingests_uncommitted_lines(space, repository):
    (repository.folder / "src/retry.py").write_text(CODE.replace("LIMIT = 3", "LIMIT = 5"))
    one = resolved(space, "src/retry.py:3")
    assert (one.quote, one.uncommitted) == ("LIMIT = 5", True)


def test_evidence_ingests_a_new_file(space, repository):
    (repository.folder / "new.md").write_text("# New\n\nNever read before.\n")
    assert resolved(space, "new.md:3").quote == "Never read before."


def test_evidence_of_a_dry_run_ingests_nothing(space, repository):
    (repository.folder / "new.md").write_text("# New\n\nNever read before.\n")
    with pytest.raises(InvalidInput, match="dry run"):
        decide(space, "new.md:3", dry_run=True)
    assert not [one for one in space.query("search", "/", {"text": "Never read before"}).hits if "new.md" in one.origin]


@pytest.mark.parametrize(
    ("text", "hint"),
    [
        ("src/retri.py:3", "src/retry.py"),
        ("src/retry.py::Retry.limt", "Retry.limit"),
        ("src/retry.py:900", "Its last line with text is 13."),
        ("src/retry.py:4", "The nearest lines with text: 3, 6."),
        ("src/retry.py:11", "The nearest lines with text: 10, 12."),
        ("retry.md:1", "docs/retry.md"),
        ('"Not written anywhere."', "word for word"),
        ("ticket:999", "Check the path"),
    ],
)
def test_unresolved_evidence_names_candidates(space, text, hint):
    before = space.engine.ledger.sequence()
    with pytest.raises((InvalidInput, NotFound)) as error:
        decide(space, text)
    assert hint in hint_of(error)
    assert space.engine.ledger.sequence() == before


def test_ambiguous_quote_lists_its_places(space):
    note(space, "The pause doubles each time.", origin="note:1")
    with pytest.raises(InvalidInput, match="2 places contain") as error:
        decide(space, '"The pause doubles each time."')
    assert "note:1" in hint_of(error)


@pytest.mark.parametrize("name", ["link.md", "link.md:1", "link.md::Private", "../outside.md", "{0}/outside.md"])
def test_evidence_outside_the_work_tree_is_refused(space, repository, tmp_path, name):
    outside = tmp_path / "outside.md"
    outside.write_text("# Private\n\nNothing for others.\n")
    (repository.folder / "link.md").symlink_to(outside)
    before = space.engine.ledger.sequence()
    with pytest.raises(Denied, match=r"outside .*acme") as refused:
        decide(space, name.format(tmp_path))
    assert f"treering add {outside}" in hint_of(refused)
    assert space.engine.ledger.sequence() == before


def test_evidence_outside_lists_paths_like_it(space, tmp_path):
    (tmp_path / "retry.md").write_text("Another one.\n")
    with pytest.raises(Denied) as refused:
        decide(space, "../retry.md")
    assert '"docs/other/retry.md", "docs/retry.md"' in hint_of(refused)


@pytest.mark.parametrize("name", ["../outside.md:1", "link.md"])
def test_ingested_file_outside_the_work_tree_may_be_cited(space, repository, tmp_path, name):
    (tmp_path / "outside.md").write_text("Shared by all.\n")
    (repository.folder / "link.md").symlink_to(tmp_path / "outside.md")
    space.ingest("path", "/", {"path": str(tmp_path / "outside.md")})
    assert resolved(space, name).quote == "Shared by all."


def test_link_within_the_work_tree_may_be_cited(space, repository):
    (repository.folder / "link.md").symlink_to(repository.folder / "docs/retry.md")
    assert resolved(space, "link.md:3").quote == "A call is tried three times."


def test_evidence_outside_of_a_folder_without_git_is_refused(tmp_path, monkeypatch):
    (tmp_path / "here").mkdir()
    (tmp_path / "here/note.md").write_text("Ours.\n")
    (tmp_path / "outside.md").write_text("Private.\n")
    monkeypatch.chdir(tmp_path / "here")
    with open_space() as space:
        assert resolved(space, "note.md").quote == "Ours."
        with pytest.raises(Denied, match="outside"):
            decide(space, "../outside.md")


def test_evidence_outside_the_readable_folder_is_denied(repository, tmp_path):
    (tmp_path / "outside.md").write_text("Private.\n")
    with open_space(files=repository.folder) as space, pytest.raises(Denied):
        decide(space, str(tmp_path / "outside.md"))


def test_other_objects_are_no_evidence(space):
    (identity,) = [one for one in decide(space, "src/retry.py:3").ids if one.startswith("know:")]
    with pytest.raises(InvalidInput, match="not a source"):
        decide(space, identity)


def test_correction_and_replacement_take_evidence(space):
    (old,) = [one for one in decide(space, "src/retry.py:3").ids if one.startswith("know:")]
    corrected = space.crystallize("knowledge", "/", {"id": old, "evidence": "docs/retry.md:3"})
    assert [one.quote for one in corrected.evidence] == ["A call is tried three times."]
    new = {"kind": "decision", "title": "U", "question": "Q?", "outcome": "P", "evidence": ["src/retry.py::wait"]}
    replaced = space.crystallize("supersede", "/", {"id": old, "knowledge": new})
    assert replaced.evidence[0].quote.endswith("return 2**attempt")


def test_knowledge_of_an_activity_takes_evidence(space):
    learned = {
        "kind": "fact",
        "title": "L",
        "subject": "limit",
        "predicate": "is",
        "value": 3,
        "because": "src/retry.py:3",
    }
    report = space.crystallize("activity", "/", {"title": "Read it", "knowledge": [learned]})
    assert [one.quote for one in report.evidence] == ["LIMIT = 3"]


def edit(space, repository, old, new):
    (repository.folder / "src/retry.py").write_text(CODE.replace(old, new))
    space.ingest("repo", "/", {"path": str(repository.folder)}, {"worktree": True})


def test_knowledge_outlives_changes_outside_its_lines(space, repository):
    (identity,) = [one for one in decide(space, "src/retry.py:3").ids if one.startswith("know:")]
    edit(space, repository, "return 2**attempt", "return 3**attempt")
    item = read(space, identity)
    assert item.status == "active"
    (ref,) = item.evidence_refs
    assert ref.quote(space.engine.ledger.segment(ref.source_id, ref.segment_id)) == "LIMIT = 3"


def test_knowledge_goes_stale_with_its_lines(space, repository):
    (identity,) = [one for one in decide(space, "src/retry.py:3").ids if one.startswith("know:")]
    edit(space, repository, "LIMIT = 3", "LIMIT = 5")
    assert read(space, identity).status == "stale"


@pytest.mark.parametrize(
    ("old", "new", "status"),
    [
        ("A call is tried three times.", "A call is tried once.", "stale"),
        ("The pause doubles each time.", "The pause is a second.", "stale"),
        ("Padding 1 ", "Filling 1 ", "active"),
        ("# Waiting\n", "\n\n# Waiting\n", "active"),
    ],
)
def test_lines_in_two_passages_hold_together(space, repository, old, new, status):
    file = repository.folder / "docs/long.md"
    padding = "".join(f"Padding {number} says nothing about retries.\n" for number in range(150))
    text = DOC.replace("A call", f"{padding}\nA call")
    file.write_text(text)
    space.ingest("repo", "/", {"path": str(repository.folder)}, {"worktree": True})
    person = space.with_actor("ada", channel="user")
    report = decide(person, "docs/long.md:154-158")
    (identity,) = [one for one in report.ids if one.startswith("know:")]
    assert report.evidence[0].quote.startswith("A call")
    assert len(report.evidence[0].segment_ids) == 2
    file.write_text(text.replace(old, new))
    assert ("changed since" in str(person.brief())) == (status == "stale")
    space.ingest("repo", "/", {"path": str(repository.folder)}, {"worktree": True})
    assert read(space, identity).status == status


def test_lines_are_cited_still_if_another_source_holds_them(space):
    one = resolved(space, "src/retry.py:9-10")
    (folded,) = [read(space, one.source_id)]
    part = folded.segments[0].model_copy(update={"segment_id": "seg_new", "excerpt": f"# Moved\n{CODE}"})
    (ref,) = repointed(one.refs, folded, "src:kept", [part])
    assert (ref.source_id, ref.segment_id) == ("src:kept", "seg_new")
    assert ref.quote(part) == one.quote


def test_each_of_two_places_supports_by_itself(space, repository):
    (identity,) = [one for one in decide(space, "src/retry.py:3", "docs/retry.md:3").ids if one.startswith("know:")]
    edit(space, repository, "LIMIT = 3", "LIMIT = 5")
    assert read(space, identity).status == "active"


def test_uncommitted_change_outside_the_lines_is_not_reported(space, repository):
    person = space.with_actor("ada", channel="user")
    decide(person, "src/retry.py:3")
    (repository.folder / "src/retry.py").write_text(CODE.replace("return 2**attempt", "return 3**attempt"))
    assert "changed since" not in str(person.brief())
    (repository.folder / "src/retry.py").write_text(CODE.replace("LIMIT = 3", "LIMIT = 5"))
    assert "changed since" in str(person.brief())


def test_reading_the_commit_leaves_uncommitted_evidence(space, repository):
    (repository.folder / "src/retry.py").write_text(CODE.replace("LIMIT = 3", "LIMIT = 5"))
    (identity,) = [one for one in decide(space, "src/retry.py:3").ids if one.startswith("know:")]
    space.ingest("repo", "/", {"path": str(repository.folder)})
    assert read(space, identity).status == "active"
    repository.git("checkout", "-q", "src/retry.py")
    space.ingest("repo", "/", {"path": str(repository.folder)})
    assert read(space, identity).status == "stale"


def test_two_places_of_one_segment_become_one_reference(space):
    report = decide(space, "src/retry.py:9", "src/retry.py:13")
    (identity,) = [one for one in report.ids if one.startswith("know:")]
    segments = [ref.segment_id for ref in read(space, identity).evidence_refs]
    assert len(segments) == len(set(segments))


@pytest.mark.parametrize("lines", [(0, 1), (2, 1), (1, 900)])
def test_lines_outside_the_segment_are_refused(space, lines):
    one = resolved(space, "src/retry.py:3")
    ref = {"source_id": one.source_id, "segment_id": one.segment_ids[0], "lines": lines}
    with pytest.raises(InvalidInput):
        decide(space, ref)


LINE = st.text(alphabet="abc é=():", max_size=12).map(lambda text: f"x{text.rstrip()}")


@given(lines=st.lists(LINE, min_size=1, max_size=40), edited=st.lists(LINE, max_size=20), data=st.data())
def test_resolved_segments_contain_exactly_the_given_lines(tmp_path_factory, lines, edited, data):
    folder = tmp_path_factory.mktemp("lines")
    file = folder / data.draw(st.sampled_from(["notes.txt", "notes.md", "code.py"]))
    with open_space(":memory:", files=folder) as space:
        for version in filter(None, (lines, edited)):
            file.write_text("\n".join(version) + "\n")
            first = data.draw(st.integers(1, len(version)))
            last = data.draw(st.integers(first, len(version)))
            one = resolved(space, f"{file.name}:{first}-{last}")
            assert one.quote == "\n".join(version[first - 1 : last])
            held = "\n".join(space.engine.ledger.segment(one.source_id, part).excerpt for part in one.segment_ids)
            assert all(line in held for line in version[first - 1 : last])
