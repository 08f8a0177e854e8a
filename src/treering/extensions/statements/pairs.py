"""Features that a new statement shares with an earlier one, and evidence against a change."""

import re
from collections.abc import Collection

from treering.extensions.statements.likeness import same_words
from treering.extensions.statements.statement import StatedValue, Statement, ValueKind
from treering.extensions.statements.words import KIN, words_in
from treering.retrieval.text.analysis import stem

TELLING = frozenset({"change", "correct", "end", "done", "hint", "refuses", "objects", "negative", "leads", "disowns"})
"""Cues that announce a change."""
_CHANGING = frozenset({"change", "correct", "end", "succeeds", "objects", "disowns"})
"""Cues that name a change, whatever both statements say."""
_PLAIN = TELLING - {"done", "hint", "leads"}
"""Cues that announce it even between different things; with others, `the new sofa` does not change a rent."""
REPLY_MESSAGES = 2
"""Messages back in which a suggestion or a question is answered."""
_MAX_POINTING_THINGS = 3
"""Things of its own up to which it may be about another statement without a word in common."""
MIN_SAME_WORDS = 0.4
"""The share of words that two statements about one subject have in common, the later one with a word such as `now`."""
MIN_OVERLAP = 0.6
"""The share of common things from which on another value changes an earlier one without a word for it."""
_HOURS = 24
_LEFT = re.compile(r"\b(?:from|instead of|rather than) (?:the |my |our )?([\w-]+)")
"""Something left for something else."""
_READING = re.compile(r"\d+[.,](?:\d|\d{3,})")
_PERSON = re.compile(r"(?:and |but |so )?(?:he|she|they|him|her)\b")


def may_change(new: Statement, old: Statement) -> bool:
    """Return whether a statement may change an earlier one, regardless of the probability.

    Within a message, only a correction changes an earlier statement.
    """
    if old.message == new.message and "correct" not in new.cues:
        return False
    if not new.has_substance and not announces_change(new):
        return False  # `Thanks!`
    if share_only_words(new, old) or _denies_another(new, old) or _only_wishes(new, old) or _are_readings(new, old):
        return False
    if _corrects_another(new, old):
        return False
    is_open = new.force != "ended" and new.cues.isdisjoint({"change", "correct"})
    are_own = new.author != old.author and new.is_own and old.is_own and "handover" not in new.cues
    are_past = "did" in new.cues & old.cues
    if is_open and (are_own or are_past or "label" in differing(new, old)):
        return False  # two people's phone numbers, two events, `sample 7` and `sample 8`
    relatives, earlier = new.modifiers & KIN, old.modifiers & KIN
    are_of_kin = (relatives and not earlier and old.is_own) or (
        earlier and not relatives and (new.is_own or not new.owner)
    )
    if are_of_kin and new.force != "ended" and "correct" not in new.cues:
        return False  # where the parents live, and the speaker
    is_told = announces_change(new)
    if is_open and not is_told and (have_other_kinds(new, old) or new.modifiers - old.modifiers - KIN):
        return False  # a date and a price; `my phone` and `my work phone`
    both = ((new.modifiers - KIN, old.modifiers - KIN), (new.modifiers & KIN, old.modifiers & KIN))
    return not any(one and other and one.isdisjoint(other) for one, other in both)


def _corrects_another(new: Statement, old: Statement) -> bool:
    """Return whether a statement names a code and the wrong one, and has nothing in common with an earlier statement.

    `Order A-1010, not A-1001` is not about a phone number. Wrong names and days may be stated in other words.
    """
    if "negative" not in new.cues or new.things & old.things:
        return False
    both = {kind: keys for kind, keys in new.keys.items() if len(keys) > 1 and kind in ("code", "label")}
    return bool(both) and all(keys.isdisjoint(old.keys.get(kind, ())) for kind, keys in both.items())


def _denies_another(new: Statement, old: Statement) -> bool:
    """Return whether a statement denies or ends something else than an earlier one: `I have never lived in Kumasi`."""
    if not new.cues.isdisjoint(
        {"change", "correct", "objects", "refuses"} - ({"change"} if new.force == "ended" else set())
    ):
        return False
    others = differing(new, old)
    if new.force == "ended":
        is_other = new.things - new.inherited and not new.refers and not have_same_attribute(new, old)
        return not new.things & old.things and bool("name" in others or is_other)
    return not new.positive and old.positive and bool(others)


def _only_wishes(new: Statement, old: Statement) -> bool:
    """Return whether a statement is a wish, and an earlier one is none: `Sanne wants a car`."""
    is_wish = "wishes" in new.cues and new.cues.isdisjoint({"change", "correct", "end"})
    return is_wish and "wishes" not in old.cues and not set(differing(new, old)) - {"name"}


def _are_readings(new: Statement, old: Statement) -> bool:
    """Return whether two statements state numbers with fractions that are no prices, as results of measurements do."""
    if announces_change(new) or differing(new, old) != ["amount"]:
        return False
    return all(_READING.fullmatch(key) for one in (new, old) for key in one.keys["amount"])


def objections(new: Statement, old: Statement) -> list[str]:
    """Return the reason why the change is unlikely and needs a higher probability."""
    if "correct" in new.cues or new.force == "ended":
        return []
    is_open, is_told, kinds = "change" not in new.cues, not new.cues.isdisjoint(_PLAIN), differing(new, old)
    found = {
        "past": bool(new.cues & {"past", "add"}),
        "same": "same" in new.cues and not new.cues & {"change", "negative"},
        "other subject": not is_told and is_other_subject(new, old),
        "reply": bool(new.answers) and not new.topics,  # `three`, after `and in the evening?`
        "another": is_open and is_another(new, old),
        "another event": not is_told and "name" in kinds and len(kinds) > 1,
        "something else": not announces_change(new) and says_something_else(new, old),
        "only mentioned": only_mentions(new, old),
        # A deadline, and a plan to meet it.
        "only planned": not is_told and new.force == "planned" and old.attributes and not have_same_attribute(new, old),
        "own day": not is_told and kinds == ["date"] and has_own_thing(new, old),  # a trip and a birthday
    }
    return [name for name, holds in found.items() if holds]


def have_little_in_common(new: Statement, old: Statement) -> bool:
    """Return whether two statements with different values share few things and no attribute of which a person has one.

    A word that names a change outweighs that.
    """
    if not differing(new, old) or not new.cues.isdisjoint(_CHANGING) or new.force == "ended":
        return False
    shorter = max(1, min(len(new.things), len(old.things)))
    return len(new.things & old.things) / shorter < MIN_OVERLAP and not have_same_attribute(new, old)


def announces_change(new: Statement) -> bool:
    """Return whether a word of a statement announces a change."""
    return not new.cues.isdisjoint(TELLING)


def is_certain(new: Statement, old: Statement) -> bool:
    """Return whether a statement can only be about an earlier one: its subject, its attribute, or as a reply."""
    texts = [_without(one, differing(new, old)) for one in (new, old)]
    is_alike = bool(new.subject) and new.subject == old.subject and same_words(*texts) >= MIN_SAME_WORDS
    is_same_person = (new.author, new.owner) == (old.author, old.owner)
    is_same = is_alike or (is_same_person and have_same_attribute(new, old))
    is_again = "hint" in new.cues and is_same_person and have_same_attribute(new, old)
    if (("change" in new.cues and is_same) or is_again) and not objections(new, old):
        return True
    if takes_over(new, old) or _gives_up(new, old):
        return True
    if old.message < new.message - REPLY_MESSAGES:
        return False
    if "disowns" in new.cues:
        return new.author == old.author
    is_moved = bool(new.cues & {"change", "correct", "objects"} and changed_values(new, old)) and not (
        new.answers or "agrees" in new.cues
    )
    return not new.things - new.inherited and (is_moved or (new.force == "ended" and _refers_to_person(new, old)))


def _gives_up(new: Statement, old: Statement) -> bool:
    """Return whether a person ends just what an earlier statement is about, or names it as given up for something else.

    `I stopped drinking coffee`; `we switched from Digi to Orange`.
    """
    if new.author != old.author:
        return False
    own = new.things - new.inherited
    if new.force == "ended" and own and own <= old.things:
        return True
    left = _LEFT.findall(new.text.casefold()) if "change" in new.cues else ()
    return not {stem(name) for name in left}.isdisjoint(old.things & old.names)


def _without(one: Statement, kinds: Collection[ValueKind]) -> str:
    """Return the text of a statement without values of some kinds: long names would hide common words."""
    text = one.text
    for value in one.values:
        text = text.replace(value.text, " ") if value.kind in kinds else text
    return text


def is_done(new: Statement, old: Statement) -> bool:
    """Return whether a statement may report that a plan was carried out."""
    return old.force == "planned" and bool(new.cues & {"did", "done"}) and new.force != "planned"


def takes_over(new: Statement, old: Statement) -> bool:
    """Return whether a person takes over the plan of another."""
    is_other = new.owner and old.owner and new.owner != old.owner
    return bool(is_other and old.force == "planned" and "handover" in new.cues and new.things & old.things)


def changed_values(new: Statement, old: Statement) -> list[StatedValue]:
    """Return the values of an earlier statement that a new one has others for."""
    kinds = differing(new, old)
    if not kinds and _may_be_time(new, old):
        kinds = ["time"]
    return [value for value in old.values if value.kind in kinds]


def differing(new: Statement, old: Statement) -> list[ValueKind]:
    """Return the kinds of values that both have, and none in common."""
    return [kind for kind in new.keys if kind in old.keys and new.keys[kind].isdisjoint(old.keys[kind])]


def have_equal_value(new: Statement, old: Statement) -> bool:
    """Return whether both have a value in common."""
    return any(not keys.isdisjoint(old.keys.get(kind, ())) for kind, keys in new.keys.items())


def have_same_name(new: Statement, old: Statement) -> bool:
    """Return whether both have a name in common."""
    return not new.keys.get("name", frozenset()).isdisjoint(old.keys.get("name", ()))


def have_other_kinds(new: Statement, old: Statement) -> bool:
    """Return whether both have values of different kinds only: what the gym costs, and where it is now."""
    return bool(new.keys and set(old.keys) - {"name"}) and new.keys.keys().isdisjoint(old.keys)


def have_same_attribute(new: Statement, old: Statement) -> bool:
    """Return whether both state the same attribute of which a person has one, such as a home."""
    return new.single and old.single and not new.attributes.isdisjoint(old.attributes)


def is_other_subject(new: Statement, old: Statement) -> bool:
    """Return whether two statements name their subjects, and neither names the subject of the other."""
    subject, earlier = new.subject - new.verbs or new.subject, old.subject - old.verbs or old.subject
    return bool(subject and earlier) and not (subject & old.topics or earlier & new.topics)


def is_another(new: Statement, old: Statement) -> bool:
    """Return whether two statements are about different objects of one kind: `the bike key` and `the shed key`."""
    subject, earlier = new.subject - new.verbs, old.subject - old.verbs
    return bool(subject & earlier and subject - earlier and earlier - subject)


def says_something_else(new: Statement, old: Statement) -> bool:
    """Return whether two statements share no more than their subject: `Bohr is our cat`, `Bohr caught a cold`."""
    shared = new.things & old.things
    has_other_value = bool(set(differing(new, old)) - {"name"}) or new.positive != old.positive
    if not shared or not shared <= new.subject or has_other_value or have_same_attribute(new, old):
        return False
    is_reply = is_done(new, old) or new.cues & {"answers", "agrees"}
    return not is_reply and bool(new.things - shared - new.inherited or new.verbs - old.verbs)


def only_mentions(new: Statement, old: Statement) -> bool:
    """Return whether a plan or event has no other value than a statement: `our vet is Lam`, `I will call the vet`."""
    is_event = new.force == "planned" or "did" in new.cues
    is_about = old.force == "asserted" and bool(old.keys) and bool(new.things & old.things)
    is_reply = is_done(new, old) or new.cues & {"answers", "agrees"} or new.refers
    is_other = differing(new, old) or new.positive != old.positive or have_same_attribute(new, old)
    return is_event and is_about and not announces_change(new) and not is_reply and not is_other


def have_common(new: Statement, old: Statement) -> bool:
    """Return whether two statements may be about the same: by a word, an attribute, or a pronoun or an answer.

    A statement with little to say may also point at another by a word for a change, or by another value.
    """
    if new.topics & old.topics or new.attributes & old.attributes or new.refers or new.cues & {"answers", "agrees"}:
        return True
    if len(new.things - new.inherited) > _MAX_POINTING_THINGS:
        return False
    return announces_change(new) or have_equal_value(new, old) or bool(set(differing(new, old)) - {"name"})


def share_only_words(new: Statement, old: Statement) -> bool:
    """Return whether two statements share no subject, only a name that is not changed or the unit of an amount.

    `Fleur changed schools` is not about `Joost is Fleur's godfather`, nor `11 kids are in the chess club` about `I
    teach 28 kids`.
    """
    if have_same_attribute(new, old):
        return False
    shared = new.things & old.things
    if nouns := shared - new.names - old.names:
        return nouns <= new.units & old.units and not new.things - new.inherited <= shared
    names = shared - new.inherited
    return bool(names) and not _changes_name(new, old, names)


def _changes_name(new: Statement, old: Statement, shared: frozenset[str]) -> bool:
    """Return whether a shared name is a changed object: `we sold the Volvo`, `we switched from Digi to Orange`."""
    people = {stem(word) for one in (new, old) if one.owner != one.author for word in words_in(one.owner)}
    if new.force == "ended":
        return bool(shared & new.subject) or not shared <= people
    is_told = "correct" in new.cues or (new.cues & _CHANGING and new.names - old.names)
    return bool(is_told) and not shared <= people


def has_own_thing(new: Statement, old: Statement) -> bool:
    """Return whether a statement names something of its own, and nothing of the other: `the deadline was moved`."""
    names = {word for value in new.values if value.kind in ("name", "address") for word in value.key.split()}
    return bool(new.things - new.inherited - names) and not new.things & old.things and not have_same_name(new, old)


def kinds_of(one: Statement) -> set[ValueKind]:
    """Return the kinds of its values, without names."""
    return set(one.keys) - {"name"}


def _refers_to_person(new: Statement, old: Statement) -> bool:
    """Return whether a pronoun may mean the third person of an earlier statement: `she quit`, after `my sister …`."""
    is_of_third_person = bool(old.modifiers & KIN) or old.owner not in ("", old.author)
    return is_of_third_person and _PERSON.match(new.text.casefold()) is not None


def _may_be_time(new: Statement, old: Statement) -> bool:
    """Return whether `make it 8` may be about `dinner at 7`."""
    hours = [key for key in new.keys.get("amount", ()) if key.isdigit() and int(key) <= _HOURS]
    return len(hours) == 1 and "time" in old.keys and old.keys["time"].isdisjoint({f"{hours[0]}:00"})
