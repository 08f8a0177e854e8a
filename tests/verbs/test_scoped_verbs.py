"""A call at a scope neither tells of nor changes what lies beside it."""

import json
import random
import re
from functools import reduce

import apsw
import pytest

from space_parts import decide, move, note, put, read, records, state_fact, status, task
from treering.core.canonical import PREFIXES
from treering.core.errors import Conflict, Denied, InvalidInput, InvalidPatch, NotFound, TreeringError
from treering.core.patch import AddLink, Create, Link, MoveScope, Update
from treering.core.scope import Boundary
from treering.extensions.server.confined_ledger import confined
from treering.ports.ledger import Selection
from treering.testing.builders import Builder
from treering.verbs.catalog import TOOLS, call
from treering.verbs.envelope import EVERYTHING, Envelope
from treering.verbs.query.space_status import STATUS
from treering.verbs.scoped_ledger import ScopedLedger

NOBODY = {kind: f"{prefix}:{'0' * 26}" for kind, prefix in PREFIXES.items()}


def told(space, verb, mode, scope, given, engine=None, **options):
    """Return what a call answers: its report, or its error, as data."""
    try:
        envelope = Envelope(mode=mode, scope=scope, input=given, options=options)
        report = call(engine or space.engine, verb, envelope, granted=EVERYTHING)
    except TreeringError as error:
        return {"error": type(error).__name__, "message": error.message, "hint": error.hint, "details": error.details}
    return json.loads(report.model_dump_json())


def same_but_for(answer, other, *ids):
    """Tell whether two answers differ in nothing but the ids that were asked for and those made for the call."""
    return _blank(answer, ids) == _blank(other, ids)


def _blank(answer, ids):
    text = json.dumps(answer, sort_keys=True)
    for identity in ids:
        text = text.replace(identity, "ID")
    return "".join(part if at % 2 == 0 else "" for at, part in enumerate(_MADE.split(text)))


_MADE = re.compile(r"((?:know|node|act|work|src|patch):[0-9a-z]{26})")
_IDS_AND_TIMES = re.compile(r"[a-z]+:[0-9a-z]{26}|seg_[0-9a-z]{13}|\d{4}-\d\d-\d\dT[\d:.]+Z")


def made_at(scope, patch):
    """Return a patch that says at which scope it was made."""
    return patch.model_copy(update={"scope": scope})


class TestForeignIds:
    """An id of another scope is answered in the words in which an id nobody has is answered."""

    @pytest.fixture
    def foreign(self, space):
        quote = note(space, "Walruses sleep in the archive.", scope="/b", origin="walrus.md", title="Walrus")
        known = {
            "source": quote["source_id"],
            "knowledge": decide(space, "Walrus", quote, scope="/b"),
            "work_item": task(space, "Feed the walrus", scope="/b"),
            "node": "",
        }
        node = Builder(space.engine.clock).node("Walrus", scope="/b")
        put(space, node)
        return {**known, "node": node.id, "segment": quote["segment_id"]}

    def calls(self, ids, own):
        know, work, node, source = ids["knowledge"], ids["work_item"], ids["node"], ids["source"]
        quote = {"source_id": source, "segment_id": ids["segment"]}
        payload = {"question": "Which?", "outcome": "This"}
        fact = {"kind": "decision", "title": "New", "payload": payload}
        yield "crystallize", "knowledge", {"id": know, "title": "Taken over"}
        yield "crystallize", "knowledge", {"id": know, "status": "archived"}
        yield "crystallize", "knowledge", {"id": know, "title": "Taken over", "revision": 7}
        yield "crystallize", "knowledge", {**fact, "evidence_refs": [quote]}
        yield "crystallize", "knowledge", {**fact, "derived_from": [know]}
        yield "crystallize", "knowledge", {**fact, "subject_refs": [node]}
        yield "crystallize", "knowledge", {"id": own["knowledge"], "derived_from": [know]}
        yield "crystallize", "knowledge", {"id": own["knowledge"], "evidence_refs": [quote]}
        yield "crystallize", "knowledge", {"id": own["knowledge"], "subject_refs": [node]}
        yield "crystallize", "promote", {"ids": [know]}
        yield "crystallize", "supersede", {"id": know, "by": own["knowledge"]}
        yield "crystallize", "supersede", {"id": own["knowledge"], "by": know}
        yield "crystallize", "supersede", {"id": know, "knowledge": fact}
        yield "crystallize", "work_item", {"id": work, "status": "in_progress"}
        yield "crystallize", "work_item", {"id": work, "links": [{"type": "about", "target": own["knowledge"]}]}
        yield "crystallize", "work_item", {"id": own["work_item"], "links": [{"type": "about", "target": know}]}
        yield "crystallize", "work_item", {"id": own["work_item"], "depends_on": [work]}
        yield "crystallize", "work_item", {"id": own["work_item"], "parent_ref": work}
        yield "crystallize", "work_item", {"title": "New", "blocked_by": [work]}
        yield "crystallize", "work_item", {"title": "New", "source_refs": [source]}
        yield "crystallize", "activity", {"title": "New", "source_refs": [source]}
        yield "crystallize", "activity", {"title": "New", "produced_object_refs": [know]}
        yield "query", "page", {"id": know}
        yield "query", "page", {"name": "Walrus"}
        yield "query", "related", {"id": know}
        yield "query", "expand", {"ids": [know, source, f"{source} {ids['segment']}"]}
        yield "lint", "audit", {"id": know}
        yield "lint", "audit", {"id": source}

    def test_are_as_ids_that_nobody_has(self, space, foreign):
        own = {"knowledge": decide(space, "Ours", scope="/a"), "work_item": task(space, "Ours", scope="/a")}
        nobody = {**NOBODY, "segment": "seg_0000000000000"}
        before = records(space)
        asked = zip(self.calls(foreign, own), self.calls(nobody, own), strict=True)
        for (verb, mode, given), (_, _, missing) in asked:
            answer, other = told(space, verb, mode, "/a", given), told(space, verb, mode, "/a", missing)
            assert same_but_for(answer, other, *foreign.values(), *nobody.values()), (verb, mode, given)
        assert records(space) == before

    def test_are_no_more_known_in_a_dry_run(self, space, foreign):
        own = {"knowledge": decide(space, "Ours", scope="/a"), "work_item": task(space, "Ours", scope="/a")}
        for verb, mode, given in self.calls(foreign, own):
            if verb == "crystallize":
                assert "error" in told(space, verb, mode, "/a", given, dry_run=True), (mode, given)

    def test_a_proposal_is_confined_when_it_is_made_and_when_it_is_approved(self, open_space, tmp_path):
        (tmp_path / "p.toml").write_text('reviewed_operations = ["transition"]\n')
        space = open_space(policy=tmp_path / "p.toml")
        foreign = decide(space, "Walrus", note(space, "Walrus", scope="/b"), scope="/b", status="candidate")
        with pytest.raises(NotFound):
            space.crystallize("promote", scope="/a", input={"ids": [foreign]})
        own = decide(space, "Ours", note(space, "Ours", scope="/a"), scope="/a", status="candidate")
        proposed = space.crystallize("promote", scope="/a", input={"ids": [own]})
        move(space, own, "/b")
        reviewer = space.with_actor("ada", channel="user")
        with pytest.raises((NotFound, Conflict)):
            reviewer.approve(proposed.patch_id)
        assert status(space, own) == "candidate"


class TestChanges:
    def test_objects_below_may_be_changed(self, space):
        below = decide(space, "Below", scope="/a/b")
        space.crystallize("knowledge", scope="/a", input={"id": below, "title": "Changed from above"})
        space.crystallize("knowledge", scope="/", input={"id": below, "status": "archived"})
        assert status(space, below) == "archived"

    def test_objects_above_are_visible_but_read_only(self, space):
        above = decide(space, "Above", note(space, "Above"))
        own = decide(space, "Ours", scope="/a", derived_from=[above])
        assert read(space, own).derived_from == (above,)
        before = records(space)
        for mode, given in (
            ("knowledge", {"id": above, "title": "Taken over"}),
            ("knowledge", {"id": above, "status": "archived"}),
            ("supersede", {"id": above, "by": own}),
        ):
            with pytest.raises(Denied, match=r"A call at scope /a may not change"):
                space.crystallize(mode, scope="/a", input=given)
        assert records(space) == before

    def test_a_link_needs_one_end_that_may_be_changed(self, space):
        above, other = decide(space, "Above"), decide(space, "Other")
        work = task(space, "Ours", scope="/a")
        space.crystallize("work_item", scope="/a", input={"id": work, "links": [{"type": "about", "target": above}]})
        top = task(space, "Above too")
        with pytest.raises(Denied):
            space.crystallize("work_item", scope="/a", input={"id": top, "links": [{"type": "about", "target": other}]})

    @pytest.mark.parametrize(
        ("scope", "given"),
        [
            ("/a", {"from_scope": "/b/c"}),
            ("/a", {"from_scope": "/b/c", "to_scope": "/a"}),
            ("/a", {"from_scope": "/a/x", "to_scope": "/b"}),
            ("/a/x", {"from_scope": "/a/x"}),
        ],
    )
    def test_content_moves_only_where_the_call_may_change_both_ends(self, space, scope, given):
        decide(space, "Theirs", scope="/b/c")
        decide(space, "Ours", scope="/a/x")
        before = records(space)
        report = told(space, "crystallize", "promote", scope, given)
        assert report.get("error") in {"Denied", None}
        assert "know:" not in json.dumps(report) or report["error"] == "Denied"
        assert records(space) == before

    def test_promoting_from_elsewhere_is_as_promoting_from_where_nothing_is(self, space):
        decide(space, "Theirs", scope="/b/c")
        theirs = told(space, "crystallize", "promote", "/a", {"from_scope": "/b/c", "to_scope": "/a"})
        nothing = told(space, "crystallize", "promote", "/a", {"from_scope": "/b/n", "to_scope": "/a"})
        assert json.dumps(theirs).replace("/b/c", "/b/n") == json.dumps(nothing)

    def test_what_a_change_brings_about_elsewhere_happens_and_is_not_told(self, space):
        quote = note(space, "Uploads are retried.", scope="/a", origin="a.md")
        theirs, ours = (decide(space, f"Retry {name}", quote, scope="/a") for name in ("theirs", "ours"))
        move(space, theirs, "/b")
        given = {"items": [{"text": "Uploads are not retried.", "origin": "a.md"}]}
        report = told(space, "ingest", "source", "/a", given, dry_run=True)
        assert report["staled"] == [ours]
        report = told(space, "ingest", "source", "/a", given)
        assert status(space, theirs, ours) == ["stale", "stale"]
        assert report["staled"] == [ours]
        assert theirs not in json.dumps(report)

    def test_cycle_output_omits_other_scopes(self, space):
        ours = task(space, "Ours", scope="/a")
        theirs = task(space, "Theirs", scope="/a", depends_on=[ours])
        above = task(space, "Above", scope="/a", depends_on=[theirs])
        move(space, theirs, "/b")
        move(space, above, "/")
        with pytest.raises(InvalidInput) as caught:
            space.crystallize("work_item", scope="/a", input={"id": ours, "depends_on": [above]})
        assert theirs not in json.dumps([caught.value.message, caught.value.details])


class TestIdempotencyKeys:
    def crystallize(self, space, title, scope="/a", mode="work_item", **fields):
        given = {"title": title, **fields}
        return space.crystallize(mode, scope=scope, input=given, options={"idempotency_key": "k"})

    @pytest.mark.parametrize("first", ["/", "/b", "/a/b"])
    def test_belong_to_a_scope(self, space, first):
        theirs = self.crystallize(space, "Theirs", scope=first)
        ours = self.crystallize(space, "Ours", scope="/a")
        assert not ours.receipt.replayed
        assert set(ours.ids).isdisjoint(theirs.ids)
        assert self.crystallize(space, "Ours", scope="/a").receipt.patch_id == ours.receipt.patch_id

    @pytest.mark.parametrize("scope", ["/", "/a"])
    def test_stand_for_one_call(self, space, scope):
        self.crystallize(space, "First", scope=scope)
        before = records(space)
        with pytest.raises(Conflict, match="used for a different call"):
            self.crystallize(space, "Second", scope=scope)
        with pytest.raises(Conflict, match="used for a different call"):
            self.crystallize(space, "First", scope=scope, mode="activity")
        assert records(space) == before
        assert self.crystallize(space, "First", scope=scope).receipt.replayed

    def test_stand_for_one_proposal(self, open_space, tmp_path):
        (tmp_path / "p.toml").write_text('direct_channels = ["user"]\n')
        space = open_space(policy=tmp_path / "p.toml")
        first = self.crystallize(space, "First")
        assert self.crystallize(space, "First").patch_id == first.patch_id
        with pytest.raises(Conflict, match="used for a different call"):
            self.crystallize(space, "Second")
        assert self.crystallize(space, "Second", scope="/b").patch_id != first.patch_id

    def test_a_key_that_looks_like_one_of_a_scope_is_none(self, space):
        theirs = self.crystallize(space, "Theirs", scope="/a")
        given = {"title": "Ours"}
        ours = space.crystallize("work_item", input=given, options={"idempotency_key": '["/a","k"]'})
        assert not ours.receipt.replayed
        assert set(ours.ids).isdisjoint(theirs.ids)


class TestJobs:
    def test_job_is_visible_at_its_scope_above_and_below(self, space):
        job = space.ingest("source", scope="/a", input={"items": [{"text": "Ours"}]}).job
        for scope in ("/", "/a", "/a/b"):
            assert space.ingest("status", scope=scope).job == job
            assert space.ingest("status", scope=scope, input={"job": job}).job == job

    def test_a_job_of_another_scope_is_as_one_that_never_was(self, space):
        job = space.ingest("source", scope="/b", input={"items": [{"text": "Theirs", "origin": "walrus"}]}).job
        assert space.ingest("status", scope="/a").job == ""
        answers = [told(space, "ingest", "status", "/a", {"job": one}) for one in (job, NOBODY["job"])]
        assert same_but_for(*answers, job, NOBODY["job"])
        assert answers[0]["error"] == "NotFound"


class TestConfined:
    """An engine let into one scope: what lies above is not there either, whatever a patch says of its own scope."""

    @pytest.fixture
    def make(self, space):
        return Builder(space.engine.clock)

    @pytest.fixture
    def inside(self, space):
        return confined(space.engine, Boundary("/a"))

    def test_status_counts_objects_in_sight(self, space, inside):
        for scope in ("/", "/a", "/a/c", "/ab"):
            task(space, f"Task of {scope}", scope=scope)
        assert STATUS.perform(inside, granted=EVERYTHING).objects == {"work_item": {"open": 2}}

    @pytest.mark.parametrize("way", ["commit", "preview", "propose"])
    @pytest.mark.parametrize("scope", ["/", "/b", "/ab"])
    def test_a_patch_that_names_hidden_objects_is_refused_as_for_unknown_ids(self, space, make, inside, way, scope):
        ours, theirs = task(space, "Ours", scope="/a"), task(space, "Theirs", scope=scope)
        before = records(space)

        def refusals(identity):
            for operation in (
                Update(id=identity, expected_revision=1, changes={"title": "Taken"}),
                Update(id=ours, expected_revision=1, changes={"depends_on": [identity]}),
                AddLink(link=Link(type="about", source=ours, target=identity)),
            ):
                with pytest.raises((NotFound, InvalidPatch)) as error:
                    getattr(inside.ledger, way)(made_at("/a", make.patch(operation)))
                yield error.type, str(error.value.as_dict()).replace(identity, "ID")

        assert [*refusals(theirs)] == [*refusals(NOBODY["work_item"])]
        assert records(space) == before

    def test_what_an_object_refers_to_already_may_be_said_again(self, space, make, inside):
        above = task(space, "Above", scope="/")
        ours, more = task(space, "Ours", scope="/a", depends_on=[above]), task(space, "More", scope="/a/b")
        changes = {"depends_on": [above, more]}
        patch = make.patch(Update(id=ours, expected_revision=1, changes=changes))
        inside.ledger.commit(made_at("/a", patch))
        assert read(space, ours).depends_on == (above, more)

    @pytest.mark.parametrize(
        ("said", "kept"), [(None, "/a"), ("/", "/a"), ("/b", "/a"), ("/ab", "/a"), ("/a", "/a"), ("/a/b", "/a/b")]
    )
    def test_a_patch_is_made_at_the_scope_or_below_it(self, space, make, inside, said, kept):
        patch = made_at(said, make.patch(Create(object=make.work("Ours", scope="/a/b"))))
        inside.ledger.commit(patch)
        assert space.engine.ledger.patch(patch.id).scope == kept
        assert inside.ledger.patch(patch.id).id == patch.id

    def test_a_proposal_is_made_there_and_an_idempotency_key_stays_as_it_is(self, space, make, inside):
        proposed = make.patch(Create(object=make.work("Ours", scope="/a")))
        assert inside.ledger.propose(proposed, idempotency_key="k").scope == "/a"
        again = made_at("/a", make.patch(Create(object=make.work("Ours", scope="/a"))))
        assert space.engine.ledger.propose(again, idempotency_key="k").id == proposed.id

    def test_a_commit_with_a_key_happens_once(self, make, inside):
        first, second = (make.patch(Create(object=make.work("Ours", scope="/a"))) for _ in range(2))
        assert not inside.ledger.commit(first, idempotency_key="k").replayed
        assert inside.ledger.commit(second, idempotency_key="k").patch_id == first.id

    def test_only_objects_there_and_below_are_seen(self, space, inside):
        made = {scope: task(space, scope, scope=scope) for scope in ("/", "/a", "/a/b", "/ab", "/b")}
        assert inside.ledger.heads(made.values()).keys() == {made["/a"], made["/a/b"]}
        assert [item.scope for item in inside.ledger.select(Selection(scope="/", descend=True))] == ["/a", "/a/b"]

    def test_only_jobs_there_and_below_are_reported(self, space, inside):
        jobs = {
            scope: space.ingest("source", scope=scope, input={"items": [{"text": f"At {scope}."}]}).job
            for scope in ("/a", "/a/b", "/", "/ab", "/b")
        }
        told = {scope for scope, job in jobs.items() if inside.jobs.find(job)}
        assert told == {"/a", "/a/b"}
        assert [row["scope"] for row in inside.jobs.recent(5, scope="/")] == ["/a/b", "/a"]
        assert [row["scope"] for row in inside.jobs.recent(1, scope="/")] == ["/a/b"]
        assert inside.jobs.find(NOBODY["job"]) is None

    def test_a_job_that_is_saved_is_found_again(self, space, inside):
        row = dict(space.engine.jobs.find(space.ingest("source", input={"items": [{"text": "One."}]}).job))
        inside.jobs.save(NOBODY["job"], {**row, "id": NOBODY["job"], "scope": "/a"})
        assert inside.jobs.find(NOBODY["job"])["scope"] == "/a"

    def test_what_jobs_still_name_is_counted_in_the_whole_space(self, space, inside):
        report = space.ingest("source", scope="/b", input={"items": [{"text": "One."}]})
        named = [report.items[0].source_id]
        assert inside.jobs.remains(named) == space.engine.jobs.remains(named) == 1


QUESTIONS = {
    "search": ("text", ("walrusHandler", "walrus", "walruss sleeps", "Who feeds the Walrus in Oslo?", "walrus.md")),
    "context": ("task", ("Fix the walrusHandler", "Feed the Walrus in Oslo")),
    "page": ("name", ("Walrus", "walrusHandler")),
    "related": ("name", ("Walrus", "walrusHandler")),
    "expand": ("ids", (["walrus.md"],)),
    "recent": ("since", ("yesterday",)),
    "brief": ("", ("",)),
}
"""By mode of a query: its input, and questions with words from outside."""


@pytest.mark.parametrize("mode", TOOLS["query"].modes)
@pytest.mark.parametrize("outside", ["/", "/b"])
def test_answers_to_a_confined_caller_do_not_depend_on_texts_outside(open_space, mode, outside):
    def inside(words):
        space = open_space()
        for at in range(3):
            text = f"The {words[0]}Handler sleeps. {words[1]} number {at} lives in {words[2]}. Ada feeds {words[1]}."
            note(space, text, scope=outside, title=words[1], origin=f"{at}/{words[0]}.md")
        decide(space, f"Feed the {words[1]}", scope=outside)
        note(space, "Dan likes cheese from Rome, and he sleeps.", scope="/a", title="Cheese")
        return confined(space.engine, Boundary("/a"))

    engines = [inside(words) for words in (("walrus", "Walrus", "Oslo"), ("zygote", "Zygote", "Xyvo"))]
    field, questions = QUESTIONS[mode]
    explained = ({"explain": True}, {"withdrawn": True}) if mode in ("search", "context") else ()
    for words in questions:
        for options in ({}, {"descend": True}, *explained):
            given = {field: words} if field else {}
            answers = [told(None, "query", mode, "/a", given, engine=one, **options) for one in engines]
            one, other = (_IDS_AND_TIMES.sub("", json.dumps(answer)) for answer in answers)
            assert one == other, (words, options)


class TestEmptyAnswers:
    @pytest.mark.parametrize("text", ["walrus", "walrusHandler", "walrus handler sleeps", "`walrusHandler`"])
    @pytest.mark.parametrize("mode", ["search", "context"])
    def test_words_of_other_scopes_are_as_words_nobody_wrote(self, space, mode, text):
        note(space, "The walrusHandler sleeps, a walrus handler.", scope="/b", title="walrus")
        old = decide(space, "walrus handler", scope="/b")
        space.crystallize("knowledge", scope="/b", input={"id": old, "status": "archived"})
        note(space, "Our words.", scope="/a")
        key = "text" if mode == "search" else "task"
        unwritten = {"walrus": "zygote", "handler": "mitosis", "sleeps": "divs"}

        def with_others(words):
            return reduce(lambda said, pair: said.replace(*pair), unwritten.items(), words)

        answers = [
            told(space, "query", mode, "/a", {key: words}, **options)
            for options in ({}, {"filter": {"kind": "web"}}, {"descend": True}, {"withdrawn": True})
            for words in (text, with_others(text))
        ]
        for answer, other in zip(answers[::2], answers[1::2], strict=True):
            assert {name: with_others(str(value)) for name, value in answer["empty"].items()} == {
                name: str(value) for name, value in other["empty"].items()
            }
            assert with_others(repr(answer["warnings"])) == repr(other["warnings"])
            if mode == "context":
                said = [len(gap.split("`")) for gap in answer["pack"]["missing_context"]]
                assert said == [len(gap.split("`")) for gap in other["pack"]["missing_context"]]

    def test_only_what_descending_would_show_is_counted(self, space):
        for scope in ("/a/b", "/b", "/"):
            note(space, f"Walruses in {scope}", scope=scope)
        empty = space.query(
            "search", scope="/a/c", input={"text": "walruses"}, options={"filter": {"kind": "web"}}
        ).empty
        assert (empty.reason, empty.count) == ("filtered_out", 1)
        note(space, "Zebras", scope="/b")
        note(space, "Zebras", scope="/a/b")
        empty = space.query("search", scope="/a", input={"text": "zebras"}).empty
        assert (empty.reason, empty.count) == ("out_of_scope", 1)


class TestLint:
    def test_damage_elsewhere_is_reported_without_naming_it(self, tmp_path, open_space):
        path = tmp_path / "space.db"
        space = open_space(str(path))
        theirs = decide(space, "Walrus", scope="/b")
        note(space, "Ours", scope="/a")
        connection = apsw.Connection(str(path))
        connection.execute("UPDATE objects SET title = 'Forged' WHERE id = ?", (theirs,))
        connection.execute("UPDATE passages SET title = 'Forged' WHERE object_id = ?", (theirs,))
        connection.close()
        report = space.lint("audit", scope="/a")
        assert (report.verified, report.status) == (False, "failed")
        assert theirs not in report.model_dump_json()
        assert theirs not in space.lint("reindex", scope="/a").model_dump_json()
        assert theirs in space.lint("audit").problem

    def test_proposals_are_visible_at_their_scope(self, open_space, tmp_path):
        (tmp_path / "p.toml").write_text('direct_channels = ["user"]\n')
        space = open_space(policy=tmp_path / "p.toml")
        own = space.crystallize("work_item", scope="/a/b", input={"title": "Ours"}, options={"reason": "walrus"})
        theirs = space.crystallize("work_item", scope="/b", input={"title": "Theirs"}, options={"reason": "zebra"})
        events = "\n".join(space.lint("audit", scope="/a").events)
        assert own.patch_id in events
        assert theirs.patch_id not in events
        assert space.lint("audit", scope="/a", input={"id": theirs.patch_id}).events == ()


class TestNothingLeaks:
    """Every mode of every verb, with many inputs, at one scope, beside scopes full of words found nowhere else."""

    SCOPES = ("/b", "/ab", "/a/c", "/a/bc")
    HERE = "/a/b"

    def plant(self, space, rng):
        """Fill the scopes beside ours; return every word and id that may not be told."""
        secrets = []
        for scope in self.SCOPES:
            word = "zq" + "".join(rng.choices("bcdfghjklmnpqrstvwxz", k=8))
            quote = note(space, f"{word} retries uploads; AKIA{'Q' * 16}", scope=scope, origin=f"{word}.md", title=word)
            old = decide(space, f"{word} old", quote, scope=scope)
            new = decide(space, f"{word} new", quote, scope=scope)
            space.crystallize("supersede", scope=scope, input={"id": old, "by": new}, options={"reason": word})
            facts = [state_fact(space, word, "owner", name, quote, scope=scope) for name in ("ada", "bob")]
            work = task(space, f"{word} upload", scope=scope, source_refs=[quote["source_id"]])
            done = space.crystallize("activity", scope=scope, input={"title": f"{word} done"}, options={"reason": word})
            node = Builder(space.engine.clock).node(word, scope=scope)
            put(space, node)
            job = space.ingest("path", scope=scope, input={"path": str(self.folder(word))}).job
            with pytest.raises(TreeringError):
                space.crystallize("knowledge", scope=scope, input={"id": NOBODY["knowledge"], "title": word})
            secrets += [word, quote["source_id"], quote["segment_id"], old, new, *facts, work, *done.ids, node.id, job]
        return [secret for secret in secrets if secret]

    def folder(self, word):
        folder = self.tmp / word
        folder.mkdir()
        (folder / f"{word}.md").write_text(f"# {word}\n\nThe upload of {word} is retried.\n")
        (folder / "pyproject.toml").write_text(f'[project]\nname = "{word}"\nversion = "1"\n')
        return folder

    def ours(self, space):
        quote = note(space, "Uploads are retried five times.", scope=self.HERE, origin="ours.md", title="Ours")
        known = decide(space, "Retry uploads", quote, scope=self.HERE)
        state_fact(space, "upload", "owner", "ada", quote, scope=self.HERE)
        above = note(space, "An upload above.", scope="/a")
        below = note(space, "An upload below.", scope="/a/b/d")
        work = task(space, "Upload", scope=self.HERE)
        gone = decide(space, "Retry never", scope=self.HERE)
        space.crystallize("knowledge", scope=self.HERE, input={"id": gone, "status": "archived"})
        return [quote["source_id"], known, above["source_id"], below["source_id"], work, gone]

    def inputs(self, verb, mode, pool, rng):
        some, text = (lambda: rng.choice(pool)), lambda: rng.choice(["upload", "owner", *pool])
        links = [{"type": "about", "target": some()}]
        fact = {"kind": "fact", "title": "T", "payload": {"subject": "upload", "predicate": "owner", "value": "c"}}
        choices = {
            ("query", "context"): [{"task": f"{text()} {text()}"}],
            ("query", "search"): [{"text": text()}, {"text": f"{text()} {text()} retries?"}],
            ("query", "page"): [{"id": some()}, {"name": some()}],
            ("query", "related"): [
                {"id": some(), "depth": rng.randint(1, 5), "direction": way} for way in ("any", "in", "out")
            ],
            ("query", "recent"): [{"limit": rng.randint(1, 1000)}],
            ("query", "expand"): [{"ids": [some(), f"{some()} {some()}"]}],
            ("crystallize", "activity"): [
                {"title": "Done", name: [some()]} for name in ("source_refs", "produced_object_refs")
            ],
            ("crystallize", "knowledge"): [
                {"id": some(), "title": "T"},
                {**fact, "derived_from": [some()]},
                {**fact, "subject_refs": [some()]},
            ],
            ("crystallize", "work_item"): [
                {"id": some(), "status": "in_progress"},
                {"id": some(), "links": links},
                {"title": "T", "links": links},
            ],
            ("crystallize", "promote"): [
                {"ids": [some()]},
                {"from_scope": rng.choice([*self.SCOPES, "/a", "/a/b/d"])},
            ],
            ("crystallize", "supersede"): [{"id": some(), "by": some()}],
            ("lint", "audit"): [{}, {"id": some()}],
            ("ingest", "status"): [{}, {"job": some()}],
            ("ingest", "source"): [{"items": [{"text": "An upload", "origin": f"{rng.random()}.md"}]}],
            ("ingest", "path"): [{"path": str(self.tmp / "nowhere")}],
            ("ingest", "repo"): [{"path": str(self.tmp / "nowhere")}],
        }
        return rng.choice(choices.get((verb, mode), [{}]))

    def options(self, verb, mode, rng):
        switches = {
            "query": ["descend", "explain"],
            "crystallize": ["dry_run"],
            "lint": ["apply"] if mode in {"repair", "reindex"} else [],
            "ingest": ["dry_run"] if mode != "status" else [],
        }[verb]
        if mode in {"search", "context"}:
            switches = [*switches, "withdrawn", "deep", "semantic"]
        chosen = {name: rng.random() < 0.5 for name in switches}
        if verb == "crystallize" and rng.random() < 0.3:
            chosen["idempotency_key"] = "shared"
        return chosen

    @pytest.mark.parametrize("seed", range(2))
    def test_of_what_is_next_to_a_call(self, space, tmp_path, seed):
        self.tmp, rng = tmp_path, random.Random(seed)
        secrets = self.plant(space, rng)
        pool = [*secrets, *self.ours(space), *NOBODY.values()]
        space.embed_pending()
        for verb, tool in TOOLS.items():
            for mode in tool.modes:
                for _ in range(6):
                    given = self.inputs(verb, mode, pool, rng)
                    options = self.options(verb, mode, rng)
                    answer = told(space, verb, mode, self.HERE, given, **options)
                    asked, said = json.dumps(given), json.dumps(answer)
                    leaked = [secret for secret in secrets if secret in said and secret not in asked]
                    assert not leaked, (verb, mode, given, options, answer)

    @pytest.mark.sampled(1)
    @pytest.mark.parametrize("seed", range(2))
    def test_existing_entries_stay_unchanged(self, space, tmp_path, seed):
        self.tmp, rng = tmp_path, random.Random(seed)
        secrets = self.plant(space, rng)
        pool = [*secrets, *self.ours(space)]
        before = {item.id: item for item in self.beside(space)}
        for mode in (*TOOLS["crystallize"].modes, *["repair"] * 2):
            verb = "lint" if mode == "repair" else "crystallize"
            for _ in range(10):
                options = {"apply": True} if mode == "repair" else {}
                told(space, verb, mode, self.HERE, self.inputs(verb, mode, pool, rng), **options)
        assert {item.id: item for item in self.beside(space)} == before

    def beside(self, space):
        everything = space.engine.ledger.select(Selection(scope="/", descend=True))
        return [item for item in everything if item.scope in self.SCOPES]


def test_a_patch_made_without_a_scope_has_no_limit(space):
    ours, theirs = decide(space, "Ours", scope="/a"), decide(space, "Theirs", scope="/b")
    make = Builder(space.engine.clock)
    space.engine.ledger.commit(make.patch(AddLink(link=Link(type="about", source=ours, target=theirs))))
    assert space.engine.ledger.links(ours)
    assert space.query("page", scope="/a", input={"id": ours}).links == ()
    space.engine.ledger.commit(make.patch(MoveScope(id=theirs, expected_revision=1, to="/a")))
    assert len(space.query("page", scope="/a", input={"id": ours}).links) == 1


def test_the_newest_in_sight_are_not_hidden_by_newer_ones_elsewhere(space):
    near = [task(space, f"Feed the walrus {place}", scope="/a") for place in range(3)]
    for place in range(3):
        task(space, f"Feed the seal {place}", scope="/b")
    seen = ScopedLedger(space.engine.ledger, scope="/a", descend=True)
    found = seen.select(Selection("/", descend=True, types=("work_item",), newest=2))
    assert [item.id for item in found] == near[1:]
