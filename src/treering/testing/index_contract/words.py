"""Search by words, phrases and parts of names."""

from typing import Any

import pytest

from treering.core.evidence import Lines
from treering.core.scope import Boundary, sees
from treering.ports.passages import Reach
from treering.ports.search import NamePart, TextQuery
from treering.retrieval.index.passages import passages_of
from treering.retrieval.search.fusion import place_share
from treering.testing.index_contract.stage import (
    IndexedSpace,
    IndexStage,
    by_names,
    by_place,
    by_words,
    counts,
    search_text,
    seen,
)


class ByWords(IndexStage):
    """`TextSearch` by words and names."""

    def test_a_text_is_found_by_its_words(self, space: IndexedSpace) -> None:
        hive, tent = space.make.source("Bees live in a hive."), space.make.source("People sleep in tents.", origin="t")
        space.commit(hive, tent)
        assert space.find("where do bees live?") == [hive.id]
        assert space.find("tent") == [tent.id]
        assert space.find("submarine") == []

    def test_more_and_rarer_words_come_first(self, space: IndexedSpace) -> None:
        common = [space.make.source(f"The cache keeps page {n}.", origin=f"c{n}") for n in range(5)]
        rare = space.make.source("The cache evicts the oldest page.", origin="rare")
        space.commit(*common, rare)
        assert space.find("which page does the cache evict?")[0] == rare.id

    def test_a_word_in_the_title_counts_for_more_than_one_in_the_text(self, space: IndexedSpace) -> None:
        inside = space.make.source("Something on caching and on more than that.", title="Notes", origin="a")
        titled = space.make.source("Something on pages and on more than that.", title="Caching", origin="b")
        space.commit(inside, titled)
        assert space.find("caching") == [titled.id, inside.id]

    def test_scores_fall_and_no_more_is_given_than_asked_for(self, space: IndexedSpace) -> None:
        space.commit(*(space.make.source("Bees hum. " * (n + 1), origin=str(n)) for n in range(6)))
        hits = by_words(space.index, TextQuery(words=("bee",)), reach=seen(), limit=4)
        assert len(hits) == 4
        assert [hit.score for hit in hits] == sorted((hit.score for hit in hits), reverse=True)
        assert all(hit.score > 0 for hit in hits)

    def test_a_term_that_is_asked_for_twice_counts_twice(self, space: IndexedSpace) -> None:
        bee, ant = space.make.source("The bee.", origin="a"), space.make.source("The ant.", origin="b")
        space.commit(bee, ant)
        for more, best in (("bee", bee.id), ("ant", ant.id)):
            asked = search_text(space.index, seen(), 5, words=("ant", "bee", more))
            assert space.objects(asked.words)[0] == best

    @pytest.mark.parametrize("scope", ["/", "/a"])
    @pytest.mark.parametrize("withdrawn", [False, True])
    def test_the_best_of_one_role_are_told_by_themselves(
        self, space: IndexedSpace, scope: str, *, withdrawn: bool
    ) -> None:
        paths = ("src/hive.py", "tests/test_hive.py", "CHANGES.md")
        files = [
            space.make.source(
                "Bees live in a hive. " * count, origin=f"repo#{path}", title=path, kind="file", scope="/a"
            )
            for count, path in enumerate(paths, start=1)
        ]
        note = space.make.source("Bees live in a hive.", origin="a note", scope="/a")
        space.commit(*files, note)
        reach = seen(scope, withdrawn=withdrawn)
        found = search_text(space.index, reach, 5, words=("hive",), words_in="code")
        scores = {hit.key: hit.score for hit in found.words}
        assert space.objects(found.words_in) == [files[0].id]
        assert [hit.score for hit in found.words_in] == [pytest.approx(scores[hit.key]) for hit in found.words_in]
        in_tests = seen(scope, where={"role": "test"}, withdrawn=withdrawn)
        assert space.objects(search_text(space.index, in_tests, 5, words=("hive",)).words) == [files[1].id]

    def test_a_phrase_is_found_in_its_order(self, space: IndexedSpace) -> None:
        right = space.make.source("job queue", origin="b")
        space.commit(space.make.source("queue of jobs", origin="a"), right)
        query = TextQuery(phrases=("job queue",))
        assert space.objects(by_words(space.index, query, reach=seen(), limit=5)) == [right.id]

    def test_a_request_without_terms_finds_nothing(self, space: IndexedSpace) -> None:
        space.commit(space.make.source("Bees live in a hive."))
        found = search_text(space.index, seen(), 5)
        assert [*found.words, *found.names, *found.places, *found.days, *found.counts] == []
        assert found.passages == 0
        assert by_names(space.index, TextQuery(identifiers=("ab",)), reach=seen(), limit=5) == []

    def test_a_name_is_found_by_any_stretch_of_it(self, space: IndexedSpace) -> None:
        source = space.make.source("Call `commit_patch` of `LedgerView` once.")
        space.commit(source, space.make.source("Nothing to call.", origin="b"))
        assert space.named("mit_pat") == space.named("ledgerview") == [source.id]
        assert space.named("rollback") == []

    def test_a_name_that_occurs_whole_is_left_to_the_words(self, space: IndexedSpace) -> None:
        source = space.make.source("Call `commit_patch` once, and `commit_patches` twice.")
        space.commit(source)

        def found(whole: str) -> list[str]:
            part = NamePart("commit_patch", whole=whole)
            return space.objects(search_text(space.index, seen(), 5, names=(part,)).names)

        assert found("") == found("rollback") == [source.id]
        assert found("commitpatch") == []

    def test_text_without_spaces_is_found_by_a_part_of_it(self, space: IndexedSpace) -> None:
        source = space.make.source("蜂は巣箱に住んでいる。")
        space.commit(source)
        assert space.find("巣箱") == [source.id]

    @pytest.mark.parametrize("reader", ["/", "/a", "/a/b", "/b"])
    @pytest.mark.parametrize("descend", [True, False])
    def test_every_arm_sees_what_the_scope_and_the_filter_allow(
        self, space: IndexedSpace, reader: str, descend: bool
    ) -> None:
        items = {
            (scope, title): space.make.source(f"Bees in hive_box {n}.", origin=f"{title}{n}", title=title, scope=scope)
            for n, scope in enumerate(["/", "/a", "/a/b", "/a/bb", "/b"])
            for title in ("Old Bees", "New Bees")
        }
        space.commit(*items.values())
        space.embed()
        sighted = {place: item.id for place, item in items.items() if sees(reader, place[0], descend=descend)}
        old = sorted(identity for (_, title), identity in sighted.items() if title == "Old Bees")
        every = sorted(sighted.values())
        limits: list[tuple[dict[str, Any], list[str]]] = [
            ({}, every),
            ({"where": {"type": "source"}}, every),
            ({"where": {"title": "Old Bees"}}, old),
            ({"withdrawn": True}, every),
            ({"at": 10}, every),
        ]
        for limit, wanted in limits:
            reach: dict[str, Any] = {"scope": reader, "descend": descend, **limit}
            assert sorted(space.find("bees", **reach)) == wanted
            assert sorted(space.named("hive_box", **reach)) == wanted
            assert sorted(space.placed("Bees", **reach)) == wanted
            assert sorted(space.near("bees", **reach)) == wanted
            assert space.index.passages.count(seen(**reach)) == len(wanted)

    def test_a_filter_never_starves_a_result(self, space: IndexedSpace) -> None:
        many = [space.make.source(f"The cache keeps page {n}.", origin=f"{n}") for n in range(30)]
        decision = space.make.knowledge("decision", {"question": "Where does the cache keep pages?", "outcome": "Disk"})
        space.commit(*many, decision)
        space.embed()
        where = {"type": "knowledge"}
        assert space.find("cache pages", limit=1, where=where) == [decision.id]
        assert space.near("the cache keeps page 3", limit=1, where=where) == [decision.id]
        assert space.index.passages.count(seen(where=where)) == 1

    def test_filters_have_the_meaning_of_the_reference(self, space: IndexedSpace) -> None:
        one = space.make.source("Bees hum.", origin="1", metadata={"year": 2023, "kept": True})
        other = space.make.source("Bees hum.", origin="2", metadata={"year": 2024, "kept": False}, scope="/a")
        space.commit(one, other)
        space.embed()
        for where, wanted in (
            ({"metadata.year": {"gt": 2023}}, [other]),
            ({"metadata.kept": True}, [one]),
            ({"not": {"scope": "/a"}}, [one]),
            ({"or": [{"origin": "1"}, {"metadata.year": 2024}]}, [one, other]),
            ({"metadata.other": {"exists": False}}, [one, other]),
            ({"metadata.kept": 1}, []),
        ):
            ids = sorted(item.id for item in wanted)
            assert sorted(space.find("bees", where=where)) == ids, where
            assert sorted(space.near("bees hum", where=where)) == ids, where

    def test_what_is_withdrawn_is_found_only_where_withdrawn_things_are_asked_for(self, space: IndexedSpace) -> None:
        source = space.make.source("Bees live in a hive_box.")
        space.commit(source)
        space.embed()
        space.move(source, "archived")
        assert space.find("bees") == space.near("bees") == space.named("hive_box") == space.placed("notes.md") == []
        assert space.find("bees", withdrawn=True) == space.near("bees", withdrawn=True) == [source.id]
        assert space.placed("notes.md", withdrawn=True) == space.named("hive_box", withdrawn=True) == [source.id]

    def test_text_that_was_edited_away_is_found_only_as_of_then(self, space: IndexedSpace) -> None:
        source = space.make.source("Bees live in a hive.", "Ants live in a hill.")
        before = space.commit(source).sequence
        space.embed()
        after = space.reread(source, "Wasps live in a nest.", "Ants live in a hill.").sequence
        space.embed()
        assert space.find("bees") == space.find("bees", withdrawn=True) == []
        assert space.find("bees", at=before) == space.near("bees live in a hive", at=before, limit=1) == [source.id]
        assert space.find("bees", at=after) == space.find("wasps", at=before) == []
        assert space.find("wasps", at=after) == space.find("wasps") == [source.id]
        assert space.find("bees", at=before - 1) == []

    def test_a_read_of_the_past_sees_status_and_scope_as_they_were(self, space: IndexedSpace) -> None:
        fact = space.make.fact("hive", "holds", "bees", status="candidate", scope="/a")
        made = space.commit(fact).sequence
        space.move(fact, "archived")
        space.move_scope(fact, "/b")
        assert space.find("bees", scope="/a", descend=False, at=made, where={"status": "candidate"}) == [fact.id]
        assert space.find("bees", scope="/b", descend=False, at=made) == []
        assert space.find("bees", scope="/b", descend=False, withdrawn=True, where={"status": "archived"}) == [fact.id]

    def test_words_are_counted_while_something_current_has_them(self, space: IndexedSpace) -> None:
        source = space.make.source("Bees live in a hive.", title="Swarm")
        space.commit(source, space.make.source("Bees hum.", origin="b"))
        asked = ["bee", "swarm", "submarin"]
        assert counts(space.index, asked, reach=Reach("/")) == {"bee": 2, "swarm": 1}
        space.move(source, "archived")
        assert counts(space.index, asked, reach=Reach("/")) == {"bee": 1}

    def test_words_of_other_scopes_are_not_counted(self, space: IndexedSpace) -> None:
        space.commit(space.make.source("Bees live in a hive.", scope="/a"), space.make.source("Bees.", scope="/a/c"))
        assert counts(space.index, ["bee"], reach=Reach("/a/below")) == {"bee": 1}
        assert counts(space.index, ["bee"], reach=Reach("/a", descend=True)) == {"bee": 2}
        assert counts(space.index, ["bee"], reach=Reach("/b")) == {}

    def test_words_outside_a_boundary_are_not_counted(self, space: IndexedSpace) -> None:
        space.commit(
            *(space.make.source("Bees.", origin=one, scope=one) for one in ("/", "/a", "/a/b", "/a/b/c", "/d"))
        )

        def bees(scope: str, boundary: Boundary, *, descend: bool = False) -> int:
            reach = Reach(scope, descend=descend, boundary=boundary)
            return counts(space.index, ["bee"], reach=reach).get("bee", 0)

        assert bees("/a/b", Boundary("/a/b")) == bees("/a/b/c", Boundary("/a/b")) - 1 == 1
        assert bees("/", Boundary("/a/b"), descend=True) == bees("/a/b", Boundary("/a/b"), descend=True) == 2
        assert bees("/a/b", Boundary("/a/b", top="/a")) == 2
        assert bees("/a/b", Boundary("/a/b", top="/")) == 3
        assert bees("/", Boundary("/a/b", top="/"), descend=True) == 4
        assert bees("/d", Boundary("/a/b"), descend=True) == 0

    def test_words_are_counted_whatever_a_filter_leaves_out(self, space: IndexedSpace) -> None:
        space.commit(space.make.source("Bees live in a hive."))
        assert counts(space.index, ["bee"], reach=seen(where={"type": "knowledge"})) == {"bee": 1}

    def test_the_passages_that_words_are_counted_in_are_those_of_the_scopes(self, space: IndexedSpace) -> None:
        gone = space.make.source("Wasps.", scope="/a")
        space.commit(*(space.make.source("Bees.", origin=str(n), scope=f"/{n}") for n in range(3)), gone)
        space.move(gone, "archived")
        assert search_text(space.index, Reach("/0"), 1, counted=("bee",)).passages == 1
        assert search_text(space.index, seen(), 1, counted=("none",)).passages == 3


# Search by what a passage is called.


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
