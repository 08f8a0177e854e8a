"""Rules for patches made at a scope: what they may name and change."""

import pytest

from treering.core.errors import Denied, InvalidInput, InvalidPatch, NotFound, TreeringError
from treering.core.patch import AddLink, Erase, Link, Merge, MoveScope, Patch, Supersede, Transition, Update
from treering.ports.ledger import Ledger
from treering.testing.builders import Builder
from treering.testing.ledger_contract.stage import LedgerStage, contents, knowledge_of, status_of, updating, work_of


class ScopeRules(LedgerStage):
    """`Patch.scope` and `Patch.request`."""

    def test_id_of_another_scope_is_unknown(self, ledger: Ledger, make: Builder) -> None:
        own, foreign = make.node("Hive", scope="/a"), make.node("Nest", scope="/b")
        quote = make.source("3 hives.", scope="/b")
        ledger.commit(make.patch(own, foreign, quote))
        before = contents(ledger)
        nobody = "node:00000000000000000000000000"
        for theirs, missing in (
            (_update(foreign.id), _update(nobody)),
            (_link(own.id, foreign.id), _link(own.id, nobody)),
            (
                Merge(id=own.id, expected_revision=1, into=foreign.id),
                Merge(id=own.id, expected_revision=1, into=nobody),
            ),
        ):
            answers = [self._refusal(ledger, _at("/a", make.patch(one))) for one in (theirs, missing)]
            assert answers[0].replace(foreign.id, nobody) == answers[1]
        fact = _at("/a", make.patch(make.fact("Ada", "hives", 3, make.evidence(quote), scope="/a")))
        with pytest.raises(InvalidPatch):
            ledger.commit(fact)
        assert contents(ledger) == before

    def test_what_is_above_may_be_named_and_not_changed(self, ledger: Ledger, make: Builder) -> None:
        above, quote = make.node("Hive"), make.source("3 hives.")
        ledger.commit(make.patch(above, quote))
        fact = make.fact("Ada", "hives", 3, make.evidence(quote), scope="/a")
        link = AddLink(link=Link(type="about", source=fact.id, target=above.id))
        ledger.commit(_at("/a", make.patch(fact, link)))
        for operation in (
            _update(above.id),
            _link(above.id, quote.id),
            MoveScope(id=fact.id, expected_revision=1, to="/"),
            MoveScope(id=fact.id, expected_revision=1, to="/b"),
        ):
            with pytest.raises(Denied):
                ledger.commit(_at("/a", make.patch(operation)))
        with pytest.raises(Denied):
            ledger.preview(_at("/a", make.patch(make.node("Box", scope="/b"))))

    def test_a_change_above_is_refused_with_the_id_and_the_scope_it_is_in(self, ledger: Ledger, make: Builder) -> None:
        above, own = make.node("Hive"), make.node("Box", scope="/a")
        told, other = make.fact("Ada", "hives", 3, scope="/"), make.fact("Bob", "hives", 3, scope="/a")
        ledger.commit(make.patch(above, own, told, other))
        for operation, named in (
            (_update(above.id), above.id),
            (Transition(id=above.id, expected_revision=1, to="archived"), above.id),
            (Erase(id=above.id, expected_revision=1), above.id),
            (Merge(id=above.id, expected_revision=1, into=own.id), above.id),
            (Merge(id=own.id, expected_revision=1, into=above.id), above.id),
            (Supersede(id=told.id, expected_revision=1, by=other.id), told.id),
            (MoveScope(id=above.id, expected_revision=1, to="/a"), above.id),
            (MoveScope(id=own.id, expected_revision=1, to="/"), own.id),
            (_link(above.id, told.id), above.id),
        ):
            with pytest.raises(Denied) as refused:
                ledger.commit(_at("/a", make.patch(operation)))
            assert refused.value.details == {"id": named, "scope": "/"}
        elsewhere = make.node("Nest", scope="/b")
        with pytest.raises(Denied) as refused:
            ledger.commit(_at("/a", make.patch(elsewhere)))
        assert refused.value.details == {"id": elsewhere.id, "scope": "/b"}

    def test_what_succeeds_or_supports_may_not_lie_elsewhere(self, ledger: Ledger, make: Builder) -> None:
        own, foreign = make.fact("Ada", "hives", 3, scope="/a"), make.source("3 hives.", scope="/b")
        winner = make.fact("Ada", "hives", 4, make.evidence(foreign), scope="/b")
        ledger.commit(make.patch(own, foreign, winner))
        with pytest.raises(NotFound):
            ledger.commit(_at("/a", make.patch(Supersede(id=own.id, expected_revision=1, by=winner.id))))
        reference = make.evidence(foreign)
        for given in ([reference], [reference.model_dump()]):
            with pytest.raises(InvalidInput):
                ledger.commit(_at("/a", make.patch(updating(own.id, evidence_refs=given))))
        assert ledger.get(own.id).revision == 1

    def test_an_object_may_keep_what_it_refers_to_elsewhere_and_not_refer_there_again(
        self, ledger: Ledger, make: Builder
    ) -> None:
        foreign = make.work("Elsewhere", scope="/b")
        old = make.work("Old", scope="/a", depends_on=(foreign.id,))
        new, child = make.work("New", scope="/a"), make.work("Child", scope="/a")
        ledger.commit(make.patch(foreign, old, new, child))
        ledger.commit(_at("/a", make.patch(updating(old.id, title="Older", depends_on=[foreign.id]))))
        assert work_of(ledger, old.id).title == "Older"
        quote = make.source("3 hives.", scope="/b")
        fact = make.fact("Ada", "hives", 3, make.evidence(quote), scope="/a")
        ledger.commit(make.patch(quote, fact))
        same = [ref.model_dump() for ref in knowledge_of(ledger, fact.id).evidence_refs]
        ledger.commit(_at("/a", make.patch(updating(fact.id, title="Ada has three hives", evidence_refs=same))))
        assert status_of(ledger, fact.id) == ["active"]
        for operation in (updating(new.id, depends_on=[foreign.id]), updating(child.id, parent_ref=foreign.id)):
            with pytest.raises(InvalidPatch):
                ledger.commit(_at("/a", make.patch(operation)))

    def test_a_cycle_is_printed_without_the_ids_that_are_elsewhere(self, ledger: Ledger, make: Builder) -> None:
        first = make.work("First", scope="/a")
        foreign = make.work("Elsewhere", scope="/b", depends_on=(first.id,))
        last = make.work("Last", scope="/a", depends_on=(foreign.id,))
        ledger.commit(make.patch(first, foreign, last))
        with pytest.raises(InvalidPatch) as refused:
            ledger.commit(_at("/a", make.patch(updating(first.id, depends_on=[last.id]))))
        assert refused.value.details["cycle"] == [first.id, last.id, "…", first.id]

    def test_objects_below_may_be_changed(self, ledger: Ledger, make: Builder) -> None:
        below = make.node("Hive", scope="/a/b")
        ledger.commit(make.patch(below))
        ledger.commit(_at("/a", make.patch(_update(below.id), MoveScope(id=below.id, expected_revision=1, to="/a/c"))))
        assert ledger.get(below.id).scope == "/a/c"

    def test_the_cascade_knows_no_scopes(self, ledger: Ledger, make: Builder) -> None:
        quote = make.source("3 hives.", scope="/a")
        fact = make.fact("Ada", "hives", 3, make.evidence(quote), scope="/b")
        ledger.commit(make.patch(quote, fact))
        archive = Transition(id=quote.id, expected_revision=1, to="archived")
        assert ledger.commit(_at("/a", make.patch(archive))).staled == (fact.id,)
        assert status_of(ledger, fact.id) == ["stale"]

    def _refusal(self, ledger: Ledger, patch: Patch) -> str:
        with pytest.raises(TreeringError) as caught:
            ledger.commit(patch)
        return f"{caught.value.message} {caught.value.hint} {caught.value.details}"


def _at(scope: str, patch: Patch) -> Patch:
    return patch.model_copy(update={"scope": scope})


def _update(identity: str) -> Update:
    return Update(id=identity, expected_revision=1, changes={"summary": "Taken over."})


def _link(source: str, target: str) -> AddLink:
    return AddLink(link=Link(type="about", source=source, target=target))
