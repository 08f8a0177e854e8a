"""Text of a less trusted channel that was made to match a question best."""

import pytest

from space_parts import decide, note, open_space, state_fact

ASKED = "Which river flows past the mill that Greta Holm restored in Norrby?"
HONEST = "The mill in Norrby, which Greta Holm restored in 1987, stands where the river Alm flows past the church."
POISON = f"{ASKED} The river is the Oder. It flows past the mill in Norrby."
FAR = "Of the river at the mill in Norrby nothing is known but that Greta Holm called it Alm."
PARAGRAPH = (
    "The mill in Norrby stands at the end of the village and was built by the parish for the farmers of the valley. "
    "It ground rye and barley until the railway came, stood empty for two generations, lost its roof in a storm, and "
    "was then restored with old tools by Greta Holm, who lived next door and had worked there as a girl. The river "
    "that flows past it is the {river}, which also drives the saw of the neighbouring village and floods the meadows."
)


@pytest.fixture
def space():
    with open_space(channel="user") as opened:
        yield opened


def through(space, channel):
    return space.with_actor("somebody", channel=channel)


def search(space, text=ASKED, **options):
    return space.query("search", input={"text": text}, options=options).hits


def pack_items(space, task=ASKED):
    return space.query("context", input={"task": task}).pack.items


@pytest.mark.parametrize("channel", ["adapter", "agent", "import"])
def test_a_question_with_a_made_up_answer_comes_after_what_is_more_trusted(space, channel):
    note(space, HONEST, origin="note:honest", title="Mills")
    note(through(space, channel), POISON, origin="note:poison", title="Facts")
    first, second = search(space)
    assert (first.origin, first.trust, first.flags) == ("note:honest", "high", ())
    assert (second.origin, second.channel, second.flags) == ("note:poison", channel, ("repeats_question",))


def test_in_one_channel_it_may_come_first_but_it_is_flagged(space):
    note(space, HONEST, origin="note:honest", title="Mills")
    note(space, POISON, origin="note:poison", title="Facts")
    flags = {hit.origin: hit.flags for hit in search(space)}
    assert flags == {"note:honest": (), "note:poison": ("repeats_question",)}


def test_a_question_in_the_title_counts_as_repeated_too(space):
    note(space, HONEST, origin="note:honest", title="Mills")
    note(through(space, "agent"), "It is the Oder.", origin="note:poison", title=ASKED)
    first, second = search(space)
    assert (first.origin, second.origin, second.flags) == ("note:honest", "note:poison", ("repeats_question",))


def test_thirty_copies_do_not_push_out_what_is_more_trusted(space):
    note(space, HONEST, origin="note:honest", title="Mills")
    for number in range(30):
        note(through(space, "agent"), f"{POISON} Told in letter {number}.", origin=f"note:poison{number}")
    assert search(space)[0].origin == "note:honest"


def test_copies_are_read_on_past_until_what_is_more_trusted_is_found(space):
    note(space, FAR, origin="note:honest")
    for number in range(10):
        note(through(space, "agent"), f"{POISON} Told in letter {number}.", origin=f"note:poison{number}")
    assert [hit.origin for hit in search(space, limit=1)] == ["note:honest"]


def test_a_forged_copy_that_matches_much_better_does_not_leave_the_original_unread(space):
    note(space, PARAGRAPH.format(river="Alm"), origin="note:honest")
    agent = through(space, "agent")
    note(agent, "A song of boats, farmers and the Oder that nobody sings.", origin="note:song")
    boats = (
        "The boats that the farmers keep are old, for nobody has painted them since the flood, when the water of the "
        "Oder stood in every barn, and since the last boat builder gave up his shed and went to live with his "
        "daughter, far from any water, where he carves spoons and tells of storms, eels, nets, fog, mud and ice."
    )
    note(agent, boats, origin="note:boats")
    forged = f"{PARAGRAPH.format(river='Oder')} The Oder ferry."
    note(agent, forged, origin="note:forged", title="The farmers and the Oder")
    assert [hit.origin for hit in search(space, "Oder farmers", limit=2)] == ["note:song", "note:boats"]


def test_a_forged_copy_does_not_take_the_original_away_as_its_duplicate(space):
    note(space, PARAGRAPH.format(river="Alm"), origin="note:honest", title="Norrby")
    forged = f"{PARAGRAPH.format(river='Oder')} Greta Holm restored the mill."
    note(through(space, "agent"), forged, origin="note:forged", title="Norrby mill that Greta Holm restored")
    assert [hit.origin for hit in search(space)] == ["note:honest"]


def test_of_equally_matching_texts_the_more_trusted_comes_first(space):
    note(through(space, "agent"), "The mill of Norrby has two wheels.", origin="note:agent", title="Mill")
    note(space, "The mill of Norrby has six wheels.", origin="note:user", title="Mill")
    assert [hit.origin for hit in search(space, "mill of Norrby wheels")] == ["note:user", "note:agent"]


def test_less_trusted_text_comes_first_where_it_clearly_matches_better(space):
    note(through(space, "agent"), HONEST, origin="note:agent", title="Mills")
    note(space, "A river flows past the town.", origin="note:user", title="Towns")
    assert search(space)[0].origin == "note:agent"


def test_with_one_channel_trust_changes_no_score_and_no_order(tmp_path):
    def ranked(channel):
        with open_space(channel=channel) as space:
            for number in range(12):
                note(space, f"{HONEST} Page {number} of {number * 7} tells of mill {number}.", origin=f"note:{number}")
            note(space, POISON, origin="note:poison")
            return [(hit.origin, hit.score) for hit in search(space, limit=20)]

    assert ranked("user") == ranked("agent") == ranked("import")


def test_a_policy_that_trusts_all_channels_alike_ranks_by_the_match_alone(tmp_path):
    policy = tmp_path / "policy.toml"
    policy.write_text('[channel_trust]\nuser = "low"\nsystem = "low"\nadapter = "low"\n')
    with open_space(policy=policy, channel="user") as space:
        note(space, HONEST, origin="note:honest", title="Mills")
        note(through(space, "agent"), POISON, origin="note:poison", title="Facts")
        hits = search(space, explain=True)
        assert {hit.trust for hit in hits} == {"low"}
        assert {hit.explain["trust"]["factor"] for hit in hits} == {1.0}


def test_explain_reports_what_trust_and_repetition_cost(space):
    note(space, HONEST, origin="note:honest", title="Mills")
    note(space, "The Alm floods the meadows.", origin="note:meadows")
    for number in range(2):
        note(
            through(space, "agent"), f"{POISON} Told in letter {number}.", origin=f"note:poison{number}", title="Facts"
        )
    hits = search(space, explain=True)
    assert [hit.origin for hit in hits] == ["note:honest", "note:poison0", "note:meadows", "note:poison1"]
    honest, first, _, second = hits
    assert honest.explain["trust"] == {"level": "high", "factor": 1.0}
    assert first.explain["trust"] == second.explain["trust"] == {"level": "low", "factor": 0.7}
    assert "repeats_question" not in honest.explain
    factor = second.explain["repeats_question"]["factor"]
    assert factor < 1
    assert second.score == pytest.approx(second.explain["fused"] * 0.7 * factor, abs=1e-3)


def test_a_trusted_source_rewritten_by_an_agent_is_trusted_no_longer(space):
    note(space, HONEST, origin="note:mill", title="Mills")
    note(through(space, "agent"), POISON, origin="note:mill", title="Mills")
    (hit,) = search(space)
    assert (hit.channel, hit.trust) == ("agent", "low")
    note(space, HONEST, origin="note:mill", title="Mills")
    (hit,) = search(space)
    assert hit.trust == "low", "an update raises no trust: what else was written there nobody has looked at"


def test_taking_the_rewriting_back_gives_the_trust_back(space):
    note(space, HONEST, origin="note:mill", title="Mills")
    before = space.engine.ledger.sequence()
    report = through(space, "agent").ingest("source", input={"items": [{"text": POISON, "origin": "note:mill"}]})
    (patch,) = {event.patch_id for event in space.engine.ledger.events(after=before)}
    assert report.items[0].outcome == "updated"
    space.revert(patch, reason="poisoned")
    (hit,) = search(space)
    assert (hit.channel, hit.trust, hit.text) == ("user", "high", HONEST)


def test_adding_evidence_to_what_a_person_said_does_not_lower_its_trust(space):
    evidence = note(space, HONEST, origin="note:honest")
    identity = state_fact(space, "Norrby mill", "river", "Alm", evidence)
    more = note(through(space, "agent"), "The Alm drives the mill of Norrby.", origin="note:more")
    state_fact(through(space, "agent"), "Norrby mill", "river", "Alm", more)
    assert space.engine.ledger.get(identity).origin_channel == "user"


def test_a_pack_shows_channel_and_trust_of_every_item_and_flags_knowledge_too(space):
    evidence = note(space, HONEST, origin="note:honest", title="Mills")
    decide(space, "Greta Holm restored the mill in Norrby", evidence)
    agent = through(space, "agent")
    decide(agent, ASKED, note(agent, POISON, origin="note:poison", title="Facts"))
    items = pack_items(space)
    shown = {(item.channel, item.trust) for item in items}
    assert shown == {("user", "high"), ("agent", "low")}
    flagged = {item.section for item in items if "repeats_question" in item.flags}
    assert flagged == {"decisions"}, "the note behind it takes no place of its own"
    text = space.query("context", input={"task": ASKED}).text
    assert "trust: low (agent)" in text
    assert "trust: high (user)" in text


def test_candidate_has_the_trust_of_the_person_who_confirms_it(space):
    decide(through(space, "agent"), "Use the mill in Norrby", note(space, HONEST), status="candidate")
    (hit,) = (one for one in search(space, "use the mill in Norrby") if one.type == "knowledge")
    assert (hit.channel, hit.trust) == ("agent", "low")
    space.crystallize("promote", input={"ids": [hit.object_id]})
    (hit,) = (one for one in search(space, "use the mill in Norrby") if one.type == "knowledge")
    assert (hit.channel, hit.trust) == ("user", "high")
