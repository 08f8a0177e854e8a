"""Search by what a passage is called."""

import pytest

from treering.core.locator import Lines
from treering.derived.passages import passages_of
from treering.derived.shares import place_share
from treering.testing.index_contract.stage import IndexedSpace, IndexStage
from treering.testing.index_questions import by_place, seen


class Places(IndexStage):
    """`TextSearch` by places."""

    def test_a_place_is_an_id_path_title_or_heading_or_the_end_of_one(self, space: IndexedSpace) -> None:
        locator = Lines(path="src/auth/session.py", start=1, end=9)
        source = space.make.source("class Session: ...", origin="repo#src/auth/session.py", title="src/auth/session.py")
        part = source.segments[0].model_copy(update={"locator": locator, "heading": "Session.login"})
        source = source.model_copy(update={"segments": (part,)})
        other = space.make.source("def session(): ...", origin="repo#session.py", title="session.py")
        space.commit(source, other)
        for text in (source.id, part.segment_id, source.origin, "auth/session.py", "session.login", "login"):
            assert space.placed(text)[0] == source.id, text
        assert space.placed("Session.py") == [other.id, source.id]
        assert space.placed("auth/sess") == space.placed("x") == space.placed("%") == []

    def test_a_name_that_has_it_whole_comes_first(self, space: IndexedSpace) -> None:
        inside = space.make.source("a", origin="1", title="recommit")
        whole = space.make.source("b", origin="2", title="Ledger.commit")
        space.commit(inside, whole)
        assert space.placed("commit") == [whole.id, inside.id]

    def test_the_score_is_the_share_of_the_name(self, space: IndexedSpace) -> None:
        sources = [
            space.make.source("a", origin=f"docs/{name}", title=name)
            for name in ("commit.md", "recommit.md", "Über.md")
        ]
        space.commit(*sources)
        for text in ("commit.md", "MD", ".md", "über.md", "docs/commit.md", sources[0].id):
            hits = by_place(space.index, text, reach=seen(), limit=10)
            wanted = {item.id: share for item in sources if (share := place_share(passages_of(item)[0], text))}
            found = dict(zip(space.objects(hits), (hit.score for hit in hits), strict=True))
            assert found == pytest.approx(wanted), text

    def test_all_passages_of_an_object_are_found_by_its_id(self, space: IndexedSpace) -> None:
        source = space.make.source("One.", "Two.", "Three.")
        space.commit(source)
        assert set(space.keys(source)) == {part.segment_id for part in source.segments}
        assert len(by_place(space.index, source.id, reach=seen(), limit=2)) == 2
