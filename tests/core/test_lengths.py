"""Names have a greatest length where they are written; older, longer ones still open."""

import json

import pytest

import space_parts
from treering.core.errors import InvalidInput
from treering.core.patch import ACTOR, FIELDS, NAME, REASON, TITLE, Create, Patch, Update
from treering.ports.runtime import fresh_id
from treering.testing.builders import Builder


def commit(space, *operations, reason="", actor=None):
    author = space.engine.author.model_copy(update={"actor": actor} if actor else {})
    patch = Patch(
        id=fresh_id("patch", space.engine.clock),
        source=author,
        operations=operations,
        reason=reason,
        created_at=space.engine.clock.now(),
    )
    return space.engine.ledger.commit(patch)


@pytest.mark.parametrize(
    ("field", "limit", "write"),
    [
        ("title", TITLE, lambda space, text: space_parts.task(space, text)),
        ("title", TITLE, lambda space, text: space_parts.decide(space, text, status="candidate")),
        (
            "reason",
            REASON,
            lambda space, text: space_parts.decide(space, "A", options={"reason": text}, status="candidate"),
        ),
        ("actor", ACTOR, lambda space, text: space_parts.task(space.with_actor(text), "A")),
        ("name", NAME, lambda space, text: node(space, name=text)),
        ("aliases", NAME, lambda space, text: node(space, aliases=[text])),
    ],
)
def test_a_name_that_is_too_long_is_refused_with_its_limit_and_length(space, field, limit, write):
    with pytest.raises(InvalidInput) as caught:
        write(space, "x" * (limit + 1))
    assert caught.value.message == f"{field}: it has {limit + 1} characters; the maximum is {limit}."
    assert caught.value.details["limit"] == limit
    write(space, "x" * limit)


def guess(space, **fields):
    return space_parts.decide(space, "A", status="candidate", **fields)


def node(space, **fields):
    return commit(space, Create(object=Builder(space.engine.clock).node(**{"name": "a", **fields})))


def test_ten_megabytes_of_title_are_no_title(space):
    report = space.ingest("source", input={"items": [{"text": "A note.", "title": "x" * 10_000_000}]})
    (item,) = report.items
    assert (item.outcome, item.why) == ("failed", "its title has 10000000 characters; the maximum is 1000")
    assert len(report.model_dump_json()) < 5_000


def test_what_a_file_calls_itself_is_cut_not_refused(space, tmp_path):
    (tmp_path / "long.md").write_text(f"# {'Kiln ' * 1000}\n\nIt burns gas.\n")
    said = [{"role": "user", "name": "n" * 5000, "content": "We fire at cone six."}]
    (tmp_path / "chat.json").write_text(json.dumps(said))
    report = space.ingest("path", input={"path": str(tmp_path)})
    assert not report.counts.get("failed")
    for result in report.items:
        source = space_parts.read(space, result.source_id)
        assert len(source.title) <= TITLE
        assert all(len(part.heading) <= TITLE for part in source.segments)


def test_a_long_name_of_an_older_version_is_read_and_the_object_can_be_changed(space, monkeypatch):
    with monkeypatch.context() as older:
        older.setitem(FIELDS, "title", 10_000)
        identity = space_parts.task(space, "x" * 5000)
    assert space_parts.read(space, identity).title == "x" * 5000
    commit(space, Update(id=identity, expected_revision=1, changes={"priority": "high"}))
    assert space_parts.read(space, identity).priority == "high"
    with pytest.raises(InvalidInput, match="title"):
        commit(space, Update(id=identity, expected_revision=2, changes={"title": "y" * 2000}))
