"""Links that are saved for the next process are those that comparing all statements again finds."""

import json
from dataclasses import replace
from itertools import islice

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, rule
from recollection_parts import BEGAN

from space_parts import open_space
from treering.core.patch import Author
from treering.extensions.discussions.log import blocks
from treering.extensions.discussions.memory import DiscussionMemory
from treering.extensions.sharing.merging import merge_ledger
from treering.extensions.statements import conversations, saved_links
from treering.extensions.statements.conversations import Allowance, conversation_at, forget, said_of
from treering.extensions.statements.ledger import StatementLedger
from treering.extensions.statements.reading import statements_of
from treering.verbs.ingest.turns import Message

TEXTS = (
    "dentist on thursday at 3",
    "the dentist can only do friday 11 now",
    "dinner at 7 at Luigi's with the whole team",
    "make it 8",
    "My landlord is Mr. Pohl",
    "Sorry, I meant Mr. Kroll",
    "shall we book the ferry?",
    "yes, let's do that",
    "The wifi password is tulip42",
    "The wifi password is rose17 now",
    "I work at the bakery. My sister lives in Ghent",
    "I quit at the bakery",
)
SAID = st.builds(
    lambda name, text: Message(role="user", name=name, content=text, at=BEGAN),
    st.sampled_from(["Ada", "Ben"]),
    st.sampled_from(TEXTS),
)
MERGER = Author(actor="ada", channel="user", tool="merge")


class Values(dict):
    """`ReadyValues` of a process that ended: only JSON is left of them."""

    def read(self, name):
        return json.loads(self[name]) if name in self else None

    def write(self, name, value):
        self[name] = json.dumps(value)


def opened(actor="ada"):
    space = open_space(channel="user", actor=actor)
    return DiscussionMemory(replace(space.engine, ready=Values())).open("d")


def ledger_in(discussion):
    return conversation_at(discussion.engine, scope=discussion.ref.scope, root=discussion.ref.origin).ledger


def compared(discussion):
    """Return the ledger of the messages, with nothing of it stored."""
    return StatementLedger.of(statements_in(discussion))


def statements_in(discussion):
    zone = discussion.engine.time_zone
    live = [one for one in discussion.messages() if not one.deleted]
    said = [
        said_of(Message(role=one.role, name=one.speaker, content=one.text, at=one.at), one.position, zone)
        for one in live
    ]
    return [statement for one in said for statement in statements_of(one)]


def what_holds(ledger):
    return ledger.statements, ledger.retired, ledger.doubted, ledger.contexts


@pytest.fixture
def in_short_blocks(monkeypatch):
    monkeypatch.setattr(blocks, "BLOCK_MESSAGES", 3)
    monkeypatch.setattr(conversations, "SAVED_FROM", 1)


class SavedLinks(RuleBasedStateMachine):
    """Two copies of a discussion that change, merge, and are read by processes that end at any time."""

    def __init__(self):
        super().__init__()
        self.patch = pytest.MonkeyPatch()
        self.patch.setattr(blocks, "BLOCK_MESSAGES", 3)
        self.patch.setattr(conversations, "SAVED_FROM", 1)
        self.copies = [opened("ada"), opened("ben")]

    @rule(at=st.integers(0, 1), messages=st.lists(SAID, min_size=1, max_size=4))
    def append(self, at, messages):
        self.copies[at].append(messages)

    @rule(at=st.integers(0, 1), messages=st.lists(SAID, min_size=1, max_size=2), place=st.integers(0, 12))
    def edit(self, at, messages, place):
        self.copies[at].record(messages, start=min(place, self.copies[at].log.count()))

    @rule(at=st.integers(0, 1), place=st.integers(0, 12), erase=st.booleans())
    def delete(self, at, place, erase):
        if count := self.copies[at].log.count():
            self.copies[at].delete([place % count], erase=erase)

    @rule(at=st.integers(0, 1))
    def merge(self, at):
        ours, theirs = self.copies[at].engine, self.copies[1 - at].engine
        merge_ledger(ours.ledger, theirs.ledger, by=MERGER, name="another")

    @rule(at=st.integers(0, 1), restarts=st.booleans())
    def read(self, at, restarts):
        one = self.copies[at]
        if restarts:
            forget(one.engine)
        assert what_holds(ledger_in(one)) == what_holds(compared(one))

    @rule(at=st.integers(0, 1), restarts=st.booleans(), left=st.integers(0, 6))
    def read_on(self, at, restarts, left):
        one = self.copies[at]
        if restarts:
            forget(one.engine)
        allowance = Allowance(left)
        ledger = conversation_at(one.engine, scope=one.ref.scope, root=one.ref.origin, allowance=allowance).ledger
        whole = compared(one)
        read = StatementLedger.of(islice(statements_in(one), len(ledger.statements)))
        assert what_holds(ledger) == what_holds(read)
        assert allowance.is_short == (len(ledger.statements) < len(whole.statements))

    def teardown(self):
        self.patch.undo()


TestSavedLinks = SavedLinks.TestCase
TestSavedLinks.settings = settings(max_examples=20, stateful_step_count=15, deadline=None)


def grown(discussion):
    discussion.append([Message(role="user", name="Ada", content=text, at=BEGAN) for text in TEXTS])
    return ledger_in(discussion)


def test_next_process_compares_no_statement_again(in_short_blocks, monkeypatch):
    discussion = opened()
    before = what_holds(grown(discussion))
    forget(discussion.engine)
    made = []
    monkeypatch.setattr("treering.extensions.statements.ledger.relations_of", made.append)
    assert what_holds(ledger_in(discussion)) == before
    assert not made


def test_links_of_other_rules_are_ignored(in_short_blocks, monkeypatch):
    discussion = opened()
    before = what_holds(grown(discussion))
    ready = discussion.engine.ready
    ready.update({name: value.replace("replaces", "ends") for name, value in ready.items()})
    forget(discussion.engine)
    assert what_holds(ledger_in(discussion)) != before
    forget(discussion.engine)
    monkeypatch.setattr(saved_links, "rules_digest", lambda: "other")
    assert what_holds(ledger_in(discussion)) == before


def test_saved_links_contain_no_words(in_short_blocks):
    discussion = opened()
    grown(discussion)
    (saved,) = discussion.engine.ready.values()
    words = {word for text in TEXTS for word in text.split() if len(word) > 3}
    assert not [word for word in words if word in saved]


@pytest.mark.parametrize("place", [1, len(TEXTS) - 1])
def test_next_process_compares_edited_message_again(in_short_blocks, place):
    discussion = opened()
    grown(discussion)
    discussion.record([Message(role="user", name="Ada", content="no dentist at all", at=BEGAN)], start=place)
    forget(discussion.engine)
    assert what_holds(ledger_in(discussion)) == what_holds(compared(discussion))
