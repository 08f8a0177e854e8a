"""How often a read asks a store: over a network, each time is a wait."""

from collections import Counter
from dataclasses import dataclass, replace

import pytest

from space_parts import decide, note, open_space, task
from treering.ports.index import Index
from treering.verbs.catalog import call
from treering.verbs.envelope import READS, Envelope

# One of them for the conversation of the hits, one for the lines that knowledge cites, one for the scopes below, one
# for questions with a word that no vocabulary has: is it known here? In a context, one reads the closest passages if
# no passage has a word of the task.
MOST_OF_SEARCH = 11
MOST_OF_CONTEXT = 22


class Counted:
    """A port whose calls are counted, by port and method."""

    def __init__(self, port, name, calls):
        self._port, self._name, self._calls = port, name, calls

    def __getattr__(self, name):
        found = getattr(self._port, name)
        if not callable(found):
            self._calls[f"{self._name}.{name}"] += 1  # a property of a store is read from it
            return found

        def counted(*args, **kwargs):
            self._calls[f"{self._name}.{name}"] += 1
            return found(*args, **kwargs)

        return counted


@dataclass(frozen=True, eq=False)
class CountedIndex:
    """An index whose parts count how often they are asked."""

    inner: Index
    calls: Counter

    @property
    def passages(self):
        return Counted(self.inner.passages, "passages", self.calls)

    @property
    def text(self):
        return Counted(self.inner.text, "text", self.calls)

    @property
    def vectors(self):
        return Counted(self.inner.vectors, "vectors", self.calls)

    @property
    def graph(self):
        return Counted(self.inner.graph, "graph", self.calls)

    @property
    def upkeep(self):
        return Counted(self.inner.upkeep, "upkeep", self.calls)


@pytest.fixture(scope="module")
def space():
    with open_space(channel="user") as opened:
        places = [
            note(opened, f"The uploader retries {n} times when the network of region {n} drops.", origin=f"{n}.md")
            for n in range(40)
        ]
        talk = [{"name": "Ann", "content": f"The uploader failed {n} times on 8 May 2024."} for n in range(20)]
        opened.ingest("source", input={"items": [{"kind": "conversation", "origin": "talk", "messages": talk}]})
        for n in range(5):
            decide(opened, f"Retry the uploader {n} times", places[n])
        stale = decide(opened, "The uploader never retries", places[9])
        opened.crystallize("knowledge", input={"id": stale, "revision": 1, "status": "stale"})
        task(opened, "Make the retries of the uploader configurable")
        opened.embed_pending()
        yield opened


def trips(space, mode, asked, **options):
    """Return how often each port was asked for one answer, and the answer, by a process that answered it before.

    After a write, the maps of repositories are read once more.
    """
    calls = Counter()
    engine = space.engine
    counted = replace(engine, ledger=Counted(engine.ledger, "ledger", calls), index=CountedIndex(engine.index, calls))
    call(counted, "query", Envelope(mode=mode, input=asked, options=options), granted=READS)
    calls.clear()
    report = call(counted, "query", Envelope(mode=mode, input=asked, options=options), granted=READS)
    return calls, report


@pytest.mark.parametrize(
    "text",
    [
        "How often does the uploader retry when the network drops?",
        "uploader",
        "What failed on 8 May 2024?",
        "Which decision was made about retries of the uploader in region 3?",
    ],
)
def test_a_search_asks_the_stores_at_most_eleven_times(space, text):
    calls, report = trips(space, "search", {"text": text})
    assert report.hits
    assert calls.total() <= MOST_OF_SEARCH, calls


def test_questions_that_are_shown_with_their_answers_keep_within_the_same_bound():
    with open_space(channel="user") as space:
        asked = [{"name": ("Ann", "Bob")[n % 2], "content": f"Is lantern {n} lit at noon?"} for n in range(20)]
        space.ingest("source", input={"items": [{"kind": "conversation", "origin": "asked", "messages": asked}]})
        space.embed_pending()
        calls, report = trips(space, "search", {"text": "Is lantern 7 lit at noon?"})
    assert any(hit.reply for hit in report.hits)
    assert calls.total() <= MOST_OF_SEARCH, calls


def test_hits_of_knowledge_name_their_sources_without_asking_again(space):
    calls, report = trips(space, "search", {"text": "Retry the uploader 3 times in which regions?"})
    assert any(hit.type == "knowledge" and hit.source_id for hit in report.hits)
    assert calls.total() <= MOST_OF_SEARCH, calls


def test_a_deep_search_asks_three_times_more_at_most(space):
    calls, report = trips(space, "search", {"text": "How often does the uploader of region 7 retry?"}, deep=True)
    assert report.hits
    assert calls.total() <= MOST_OF_SEARCH + 3, calls


def test_a_deep_lookup_asks_no_more_than_any_other(space):
    (deep, report), (plain, _) = (trips(space, "search", {"text": "uploader"}, deep=deep) for deep in (True, False))
    assert report.hits
    assert deep == plain


def test_context_asks_the_stores_at_most_sixteen_times(space):
    asked = {"task": "Make the retries of the uploader configurable when the network of region 3 drops"}
    calls, report = trips(space, "context", asked)
    assert {item.section for item in report.pack.items} >= {"decisions", "work", "sources"}
    assert "stale" in str(report.pack.missing_context)
    assert calls.total() <= MOST_OF_CONTEXT, calls


def test_a_context_that_says_what_may_break_keeps_within_the_same_bound(space, tmp_path):
    (tmp_path / "uploader.py").write_text("def retry_uploader(region):\n    return region\n")
    (tmp_path / "network.py").write_text(
        "from uploader import retry_uploader\n\n\ndef drop():\n    retry_uploader(3)\n"
    )
    space.ingest("path", input={"path": str(tmp_path)})
    asked = {"task": "Make the retries of retry_uploader configurable when the network of region 3 drops"}
    calls, report = trips(space, "context", asked)
    assert report.pack.may_break
    assert calls.total() <= MOST_OF_CONTEXT, calls


def test_a_context_on_nodes_asks_no_more_often_than_any_other(space):
    nodes = [{"kind": "service", "name": f"Uploader {n}"} for n in range(6)]
    made = space.crystallize("activity", input={"title": "Met the uploaders", "nodes": nodes})
    centres = [identity for identity in made.ids if identity.startswith("node:")]
    for centre in centres:
        task(space, "Round", related_node_refs=[centre], links=[{"type": "about", "target": centre}])
    asked = {"task": "Why do " + " and ".join(node["name"] for node in nodes) + " retry when the network drops?"}
    calls, report = trips(space, "context", asked)
    assert "work" in {item.section for item in report.pack.items}
    assert calls.total() <= MOST_OF_CONTEXT, calls
