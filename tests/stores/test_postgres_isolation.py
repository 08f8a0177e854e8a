"""Two tenants in one database, and a query layer that asks for the rows of the wrong one."""

from contextlib import closing
from datetime import date

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from postgres_spaces import new_space, open_target, target_in

from space_parts import decide, note, open_space
from treering.core.errors import TreeringError
from treering.extensions.postgres.connection.space import PostgresSpace
from treering.extensions.postgres.index.index import PostgresIndex
from treering.extensions.postgres.ledger.ledger import PostgresLedger
from treering.ports.ledger import ObjectRequest, Selection
from treering.ports.passages import AskedDays, PassageRequest, Reach
from treering.ports.search import NamePart, NearRequest, TextRequest
from treering.testing.fakes import HashingEmbedder, SteppingClock

SECRET = "zanzibar"
TEXT = f"The {SECRET} ledger of Zephyrine Quill lies in the cellar, said on 2025-03-04."
_SAID = date(2025, 3, 4)
EMBEDDER = HashingEmbedder()


class Tenants:
    """One tenant as its own process has it open, and what the other one keeps."""

    def __init__(self, server):
        own, others = new_space(), new_space()
        with open_space(server.url(space=own), embedder=EMBEDDER) as space:
            evidence = note(space, "The harbour opens at nine.", origin="own.md")
            decide(space, "Open at nine", evidence)
            space.embed_pending()
        with open_space(server.url(space=others), embedder=EMBEDDER) as space:
            evidence = note(space, TEXT, origin=f"{SECRET}.md", title=f"The {SECRET} file")
            self.known = decide(space, f"Keep the {SECRET}", evidence)
            space.embed_pending()
            self.place = (evidence["source_id"], evidence["segment_id"])
            self.ids = [self.place[0], self.known]
            self.patches = [record.id for record in space.engine.ledger.patches()]
            self.end = space.engine.ledger.sequence()
        self._server, self._own = server, own
        with closing(open_target(server, others)) as opened:
            self.rows_at = opened._primary.rows_at

    def opened(self, user):
        """Open the first tenant's space as a role, with a bug: each statement names the other tenant's rows."""
        space = PostgresSpace(target_in(self._server, self._own, user=user))
        index = PostgresIndex(space, model_id=EMBEDDER.model_id, dimension=EMBEDDER.dimension)
        ledger = PostgresLedger(space, clock=SteppingClock(), followers=[index])
        space._primary.rows_at = self.rows_at
        return space, ledger, index


@pytest.fixture(scope="module")
def tenants(server):
    return Tenants(server)


def texts(index, words, *, withdrawn=False, at=None):
    reach = Reach("/", descend=True, withdrawn=withdrawn, at=at)
    days = (AskedDays(_SAID, _SAID),)
    request = TextRequest(
        reach, 10, words=words, names=(NamePart(SECRET),), place=f"{SECRET}.md", days=days, counted=words
    )
    [found] = index.text.search([request])
    keys = tuple({hit.key for hits in (found.words, found.names, found.places, found.days) for hit in hits})
    return found.counts, index.passages.read([PassageRequest(keys, reach, beside=True)])


def nearest(index):
    vector = EMBEDDER.embed_query(TEXT)
    [near] = index.vectors.search([NearRequest(Reach("/", descend=True), (vector,), (10,))])
    return index.passages.read([PassageRequest(tuple(near.found))])


def names_of_graph(index):
    view = index.graph.view(Reach("/", descend=True))
    nodes = view.named([SECRET, "zephyrine quill", f"{SECRET} file"])
    return [name for name in view.names(list(nodes.values())).values() if "zephyrine" in name or SECRET in name]


def keys_up_to(index, most):
    return index.passages.read([PassageRequest(tuple(range(most)), Reach("/", descend=True))])


READS = {
    "get": lambda t, ledger, _: [ledger.get(one) for one in t.ids],
    "get as of": lambda t, ledger, _: [ledger.get(one, as_of=t.end) for one in t.ids],
    "history": lambda t, ledger, _: [ledger.history(one) for one in t.ids],
    "heads": lambda t, ledger, _: ledger.heads(t.ids),
    "segment": lambda t, ledger, _: ledger.segment(*t.place),
    "segments": lambda t, ledger, _: ledger.segments([t.place]),
    "read": lambda t, ledger, _: ledger.read(
        [ObjectRequest(heads=tuple(t.ids), objects=tuple(t.ids), segments=(t.place,), referrers=tuple(t.ids))]
    ),
    "select": lambda _, ledger, __: list(ledger.select(Selection("/", descend=True))),
    "sources": lambda _, ledger, __: ledger.sources(scope="/", root=f"{SECRET}.md"),
    "sources at": lambda _, ledger, __: ledger.sources_at(scope="/", origins=[f"{SECRET}.md"]),
    "patch": lambda t, ledger, _: [ledger.patch(one) for one in t.patches],
    "patches": lambda _, ledger, __: ledger.patches(),
    "events": lambda _, ledger, __: list(ledger.events()),
    "events of": lambda t, ledger, _: [ledger.events_of(one) for one in t.ids],
    "changes": lambda t, ledger, _: ledger.changes(0, t.end),
    "records": lambda _, ledger, __: list(ledger.records()),
    "words": lambda _, __, index: texts(index, (SECRET, "cellar")),
    "words of the past": lambda t, _, index: texts(index, (SECRET,), at=t.end),
    "words that were withdrawn": lambda _, __, index: texts(index, (SECRET,), withdrawn=True),
    "phrases": lambda _, __, index: texts(index, (f"{SECRET} ledger",)),
    "passages": lambda _, __, index: keys_up_to(index, 50),
    "vectors": lambda _, __, index: nearest(index),
    "waiting": lambda _, __, index: index.vectors.pending(10),
    "graph": lambda _, __, index: names_of_graph(index),
}


def shown(tenants, user, reads):
    """Return what reads of the first tenant's space, as a role, show of the other one."""
    told = []
    space, ledger, index = tenants.opened(user)
    with closing(space):
        for name in reads:
            try:
                told.append(f"{name}: {READS[name](tenants, ledger, index)!r}")
            except TreeringError as error:
                told.append(f"{name}: {error} {error.hint} {error.details}")
    return [each for each in told if SECRET in each.lower() or "zephyrine" in each.lower()]


@settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(reads=st.lists(st.sampled_from(sorted(READS)), min_size=1, max_size=len(READS)))
def test_a_query_for_the_rows_of_another_tenant_shows_nothing_of_it(tenants, reads):
    assert shown(tenants, "treering_owner", reads) == []


def test_every_read_of_a_tenant_alone_shows_nothing_of_another(tenants):
    assert shown(tenants, "treering_owner", READS) == []


def test_without_row_level_security_the_same_bug_shows_another_tenant(tenants):
    """What the tests above would tell if the fence were not there."""
    assert len(shown(tenants, "postgres", READS)) >= 15
