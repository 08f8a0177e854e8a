import pytest
from statement_parts import current, ledger_of, relations


@pytest.mark.parametrize(
    ("kind", "lines"),
    [
        ("replaces", ["Ada: dentist on thursday at 3", "Ada: the dentist can only do friday 11 now"]),
        ("replaces", ["Ada: I live in Hamburg", "Ada: moved to Kiel in May"]),
        ("replaces", ["Ada: The flat costs 940 a month", "Ada: From March on the flat is 1,010 a month"]),
        ("replaces", ["Ada: dinner at 7 at Luigi's", "Ada: make it 8"]),
        ("corrects", ["Ada: my sister's birthday is the 12th of June", "Ada: wait no, the 21st"]),
        ("corrects", ["Ada: my shoe size is 42", "Ada: 41*"]),
        ("corrects", ["Ada: The demo is on Wednesday at 2.", "Ben: No, it's Thursday at 2."]),
        ("ends", ["Ada: signed up for the gym, 25 a month", "Ada: cancelled my gym membership"]),
        ("replaces", ["Ada: my flight is at 9", "Ada: flight delayed to 11"]),
        ("ends", ["Ada: we have a cat", "Ada: the cat died"]),
        ("ends", ["Ada: flying to Lisbon on 3 April", "Ada: Lisbon is off, Dad is ill"]),
        (
            "ends",
            ["Ada: I still pay for the parking spot", "Ben: still got that parking spot?", "Ada: nope, gave it up"],
        ),
        ("ends", ["Ada: my sister works at the bakery", "Ada: she quit in June"]),
        ("corrects", ["Mei: I have quit my job to sell candles", "Mei: sorry that was my brother, he had my phone"]),
        ("completes", ["Ada: I need to renew my passport", "Ada: passport is renewed"]),
        ("replaces", ["Ada: Rover gets 60 g a day", "Ada: The vet recommends 55 g from now on"]),
        ("replaces", ["Ada: I'm vegetarian", "Ada: I'm eating fish again since January"]),
        ("replaces", ["Ada: Anna is our team lead", "Ada: Piotr took over from Anna as team lead"]),
        ("replaces", ["Ada: Maria runs the design team", "Ada: Maria left, Jonas runs the design team now"]),
        ("replaces", ["Ada: Our budget is 5000", "Ben: that's tight", "Ada: they raised it to 6500"]),
        ("replaces", ["Ada: The server is in Bonn", "Ada: we moved the server to Kiel over the weekend"]),
        ("repeats", ["Ada: My phone number is 0171 333444", "Ada: my phone number is 0171 333444"]),
        ("replaces", ["Ada: Ich wohne in Hamburg", "Ada: Ich wohne jetzt in Kiel, seit Mai"]),
        (
            "corrects",
            ["Ada: Sanne's birthday is on 4 May.", "Ada: Wait, Sanne's birthday is on 14 May. I mistyped it."],
        ),
        ("replaces", ["Ada: My flight to Rome is on 20 March.", "Ada: My flight was rebooked to 25 March."]),
        ("ends", ["Ada: Our car is a grey Volvo V60.", "Ada: We sold the Volvo."]),
        ("replaces", ["Ada: The printer is Hartmann.", "Ada: We switched from Hartmann to Brandl."]),
        ("replaces", ["Ada: Yo vivo en Madrid", "Ada: Ahora vivo en Sevilla, desde mayo"]),
    ],
)
def test_later_statement_changes_an_earlier_one(kind, lines):
    found = relations(*lines)
    assert (kind, 0, len(lines) - 1, True) in found


def test_plan_passes_to_another_person_once_given_up():
    lines = ["Ben: I'll write the invitations", "Ben: swamped, can someone else take the invitations?"]
    found = relations(*lines, "Zoe: I'll take the invitations")
    assert ("reassigns", 0, 2, True) in found


@pytest.mark.parametrize(
    "lines",
    [
        ["Ada: my work phone is 0301 5550", "Ada: my private phone is 0176 2234"],
        ["Ada: my older sister lives in Ghent", "Ada: my younger sister lives in Turin"],
        ["Ada: On weekdays I get up at 6", "Ada: At weekends I get up at 9"],
        ["Ada: we have a cat called Miso", "Ada: we also got a second cat called Tofu"],
        ["Ada: stand-up is at 9:15", "Ada: planning is at 10:00"],
        ["Ada: Brightline pays 80 an hour", "Ada: Oakmere pays 95 an hour"],
        ["Ada: I live in Malmö", "Ada: Before that I lived in Lund for ten years"],
        ["Ada: the dentist is on Thursday", "Ben: is the dentist on Friday?"],
        ["Ada: I live in Kiel", "Ada: if I got the job I'd move to Oslo"],
        ["Ada: my phone number is 0171 333444", "Assistant: Your phone number is now 0171 999999."],
        ["Ada: my phone number is 0171 333444", "Ben: my phone number is 0171 999999"],
        ["Ada: The kestrel came in year 1", "Ada: The kestrel came in year 2"],
        ["Ada: mum's birthday is 3 May", "Ada: dad's birthday is 9 June"],
        ["Ada: We decided to launch the lamp on 3 June.", "Ada: Thanks!"],
        ["Ada: My appointment was postponed to 7 September at 16:00.", "Ada: The price is 59 euros now."],
        ["Ada: The server room is on floor 3.", "Ada: The office moved to Hafenstrasse 4."],
        ["Ada: I live in Hamburg", "Ada: my parents moved to Kiel"],
        ["Ada: My phone number is now +49 228 777020.", "Ada: Sorry, I meant order A-1010, not A-1001."],
        ["Ada: The deadline for the manual is 20 May.", "Ben: I will write the manual this week."],
        ["Ada: We decided to launch the lamp on 3 June.", "Ada: The lamp costs 49 euros."],
        ["Ada: My phone number is 555 1234", "Ada: My work phone is 555 9876"],
        ["Ada: I live in Kiel", "Ada: I drive a red Volvo"],
        ["Ada: My flight to Rome is on 3 June.", "Ada: We have a meeting with the bank on 9 June."],
        ["Ada: I prefer window seats", "Ada: I prefer tea"],
        ["Ada: The rent is 900 euros", "Ada: The new sofa was 650 euros"],
        ["Ada: I have a cat called Bohr", "Ada: Bohr caught a cold"],
        ["Ada: Anna is our team lead", "Ada: Anna has two children"],
        ["Ada: Our accountant is Mrs. Vogel", "Ada: I will call the accountant tomorrow"],
        ["Ada: Our dentist is Dr. Lam", "Ada: The dentist called today"],
        ["Ada: My sister lives in Rome", "Ada: I will visit my sister in May"],
        ["Ada: We use Postgres", "Ada: I will back up Postgres tonight"],
        ["Ada: I'm flying to Paris on 3 June", "Ada: I'm flying to Rome on 9 July"],
        ["Ada: The shop opens at 9", "Ada: The shop closes at 6"],
        ["Ada: I moved to Leeds in 2019", "Ada: The concert has moved to the town hall"],
        ["Ada: I got the job at Adyen in Amsterdam!", "Ada: I no longer work at Bol."],
        ["Ada: I sold my Seat Ibiza yesterday.", "Ada: I don't go to the gym any more."],
        ["Ada: The dentist moved my appointment to 19 March at 15:30.", "Ada: I quit my job at Santo Antonio."],
        ["Ada: My brother Tiago lives in Braga.", "Ada: Tiago got engaged to Marta."],
        ["Ada: My brother Tiago lives in Braga.", "Ada: We moved to Coimbra last weekend!"],
        ["Ada: Kwame works for MTN.", "Ada: I gave the Corolla to Kwame."],
        ["Ada: I live in Accra.", "Ada: Do I live in Kumasi? No, I have never lived in Kumasi."],
        ["Ada: My flight to Berlin is on 20 March.", "Ada: We moved to Berlin yesterday."],
        ["Ada: I live in Porto.", "Ada: I might move to Coimbra, but nothing is decided."],
        ["Ada: Our car is a grey Volvo V60.", "Ada: Sanne still wants a car. She looks at a Renault 5."],
        ["Ada: Energy 31672.8539", "Ada: Energy 68929.4103"],
        ["Ada: I teach 28 kids, room 14.", "Ada: The chess club has 11 kids so far"],
        [
            "Ada: From 1 April I work for Sonne.",
            "Ben: What about 15 March for dinner?",
            "Ada: Sure, 15 March at 6 pm then",
        ],
        ["Ben: From 1 April I work for Sonne.", "Ada: Dinner on 15 March at 6 pm?", "Ben: Sure, 15 March at 6 pm then"],
    ],
)
def test_facts_that_look_alike_stand_together(lines):
    assert lines[0].partition(": ")[2] in current(*lines)


@pytest.mark.parametrize(
    "lines",
    [
        ["Ada: My friend Joost is Fleur's godfather.", "Ada: Fleur changed schools, she is now at De Regenboog."],
        ["Ada: My flight to Berlin is on 20 March.", "Ada: We moved to Berlin yesterday."],
        ["Ada: My brother Tiago lives in Braga.", "Ada: Tiago got engaged to Marta."],
    ],
)
def test_name_alone_relates_nothing_in_a_long_talk(lines):
    talk = [f"Ada: I saw film number {number} at the {place}" for number, place in enumerate(("Odeon", "Rex") * 15)]
    assert [one for one in relations(lines[0], *talk, lines[1]) if one[1] == 0] == []


@pytest.mark.parametrize(
    "lines",
    [
        ["Ada: I drink coffee with milk.", "Ada: I stopped drinking coffee."],
        ["Ada: I go to the gym on Mondays.", "Ada: I don't go to the gym any more."],
        ["Ada: My salary is 5200 euros a month.", "Ada: My salary is 6100 euros a month since March."],
    ],
)
def test_change_is_found_after_a_long_talk(lines):
    talk = [f"Ada: I saw film number {number} at the {place}" for number, place in enumerate(("Odeon", "Rex") * 15)]
    assert lines[0].partition(": ")[2] not in current(lines[0], *talk, lines[1])


def test_talk_of_several_topics_shows_what_holds():
    lines = [
        "Nora: I live in Leipzig now, at Karl-Heine-Straße 12.",
        "Nora: My dentist appointment is on 10 March at 9:00.",
        "Nora: The dentist called: my appointment was moved to 17 March at 11:30.",
        "Tim: We decided to paint the kitchen green.",
        "Nora: I moved to Halle yesterday. My new address is Ludwig-Wucherer-Straße 5.",
        "Tim: Forget the green, we agreed on a blue kitchen.",
    ]
    shown = " ".join(current(*lines))
    assert [text for text in ("17 March", "Halle", "blue kitchen") if text not in shown] == []
    assert [text for text in ("Leipzig", "10 March", "paint the kitchen green") if text in shown] == []


def test_value_of_another_kind_retires_nothing_for_sure():
    found = relations(
        "Ada: Rent is 800 euros", "Ada: The gym costs 30 euros a month", "Ada: My gym moved to Elm Street"
    )
    assert all(not is_sure for *_, is_sure in found)


def test_people_who_disagree_leave_it_open():
    lines = ["Ada: The demo is on Wednesday at 2.", "Ben: The demo is on Thursday at 2."]
    assert relations(*lines) == [("replaces", 0, 1, False)]


@pytest.mark.parametrize("chatter", ["sigh.", "Merry Christmas!", "scroll up, Samira", "the rota still says 4"])
def test_chatter_retires_nothing(chatter):
    fact = "the cellar code is 4417"
    assert fact in current(f"Ada: {fact}", f"Ada: {chatter}")


def test_suggestion_holds_once_the_other_person_agrees():
    proposal = "Ada: we should rent a boat on Saturday"
    assert current(proposal, "Ben: nah, too expensive") == ["nah, too expensive"]
    assert "we should rent a boat on Saturday" in current(proposal, "Ben: yes, great idea")


def test_chain_names_everything_that_was_replaced():
    ledger = ledger_of("Ada: dinner at 7 at Luigi's", "Ada: make it 8", "Ada: make it 9 then")
    newest = ledger.current()[-1]
    assert [one.text for one in ledger.chain(newest)] == ["dinner at 7 at Luigi's", "make it 8"]
    assert ledger.contexts[newest.id] == "dinner … at Luigi's"


def test_ledger_of_fewer_messages_shows_how_it_was():
    lines = ["Ada: dentist on thursday at 3", "Ada: the dentist can only do friday 11 now"]
    assert current(*lines[:1]) == ["dentist on thursday at 3"]
    assert current(*lines) == ["the dentist can only do friday 11 now"]
