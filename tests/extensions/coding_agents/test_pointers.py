"""A prompt gets a few pointers, once a session, or nothing."""

from datetime import UTC, datetime

import pytest

from sources.git_scratch import Scratch
from space_parts import decide, note, open_space, task
from treering.extensions.coding_agents.before_edit import lines_before_edit
from treering.extensions.coding_agents.edits import FileEdit
from treering.extensions.coding_agents.pointers import pointers, subject_of
from treering.extensions.coding_agents.shown_lines import MAX_TOKENS, HookLine, show_lines, within_budget
from treering.extensions.discussions.operations import RECORD
from treering.retrieval.text.analysis import estimate_tokens
from treering.verbs.ingest.turns import Message

UPLOAD = '''\
"""Uploads of files."""


class Uploader:
    """Send files."""

    def send(self, file):
        return self.connection.put(file)

    def retry_upload(self, file, limit):
        """Send a file again until the retry limit is reached."""
        for attempt in range(limit):
            self.send(file)
'''


FILLER = "".join(f"\n\ndef step{number}(order):\n    return order.line[{number}]\n" for number in range(9))


@pytest.fixture
def acme(tmp_path):
    scratch = Scratch(tmp_path / "acme")
    scratch.commit(
        {
            "acme/upload.py": UPLOAD,
            "acme/colors.py": "def mix(red, blue):\n    return red + blue\n",
            "acme/orders.py": "def total(order):\n    return sum(line.price for line in order.lines)\n",
        }
    )
    return scratch.folder


@pytest.fixture
def space(acme):
    with open_space(f"sqlite:{acme.parent}/space.db") as opened:
        opened.ingest("repo", input={"path": str(acme)})
        yield opened


@pytest.mark.parametrize(
    "prompt", ["retry_upload ignores the limit", "Is acme/upload.py done?", "retries of an upload"]
)
def test_prompt_names_the_new_path_of_a_file(acme, space, prompt):
    (acme / "acme/upload.py").rename(acme / "acme/sending.py")
    lines = [line.text for line in pointers(space.asked_from(acme), prompt)]
    assert lines
    assert all("(renamed to acme/sending.py)" in line for line in lines if line.startswith("acme/upload.py"))


def test_prompt_states_that_a_named_file_is_gone(acme, space):
    (acme / "acme/upload.py").unlink()
    (line,) = pointers(space.asked_from(acme), "Is acme/upload.py done?")
    assert line.text.startswith("acme/upload.py (no longer in the work tree)")


@pytest.mark.parametrize(
    "prompt",
    ["continue", "run the tests", "thanks, commit this", "ok go on", "", "?", "why?", "address 3, 12/14 and #5"],
)
def test_prompts_without_a_subject_get_no_pointers(space, prompt):
    assert pointers(space, prompt) == []


def test_words_of_the_work_itself_are_no_subject():
    assert subject_of("please run all the tests again and commit") == frozenset()
    assert subject_of("run the upload tests") == frozenset({"upload"})


def test_prompt_gets_the_place_with_its_line(space):
    (place, *_) = pointers(space, "the retry limit of an upload is ignored")
    assert place.text.startswith("acme/upload.py:10 Uploader")


def test_name_alone_is_a_subject(space):
    assert pointers(space, "look at retry_upload")[0].text.startswith("acme/upload.py:10 ")


def test_prompt_about_nothing_here_gets_no_pointers(space):
    assert pointers(space, "how do I cook risotto with saffron?") == []


def test_two_words_of_a_long_prompt_are_chance(space):
    assert pointers(space, "upload retry")
    asked = "the borrowed bicycles beneath seventeen maple trees retry every upload"
    assert pointers(space, asked) == []


@pytest.mark.parametrize("prompt", ["ok, do it. Retry the upload of a file", "Yes, raise that and retry each upload"])
def test_answer_about_an_earlier_message_gets_no_places_of_a_search(space, prompt):
    assert pointers(space, "Retry the upload of a file")
    assert pointers(space, prompt) == []
    assert pointers(space, f"{prompt} in retry_upload")


def test_script_of_a_forge_is_no_place_for_code(tmp_path):
    scratch = Scratch(tmp_path / "acme")
    script = "VOUCHER_LIMIT = 200\n\ndef check_voucher_limit():\n    return VOUCHER_LIMIT\n"
    scratch.commit({".github/scripts/cli.py": script, "acme/shop.py": "def total(order):\n    return order.sum\n"})
    with open_space(f"sqlite:{tmp_path}/space.db") as space:
        space.ingest("repo", input={"path": str(scratch.folder)})
        assert pointers(space, "why is the limit of a voucher ignored?") == []
        assert pointers(space, "why does the github script ignore the voucher limit?")


@pytest.fixture(scope="module")
def shop(tmp_path_factory):
    scratch = Scratch(tmp_path_factory.mktemp("shop") / "shop")
    form = "---\nname: Broken checkout\n---\n\nDoes the checkout total include the voucher discount? Which basket?\n"
    scratch.commit(
        {
            "shop/checkout.py": "def total(basket, voucher):\n    return basket.sum - voucher.discount\n",
            "shop/basket.py": 'def empty(basket):\n    """Remove all lines of a basket."""\n    basket.clear()\n',
            "shop/flags.py": 'MAX_LINES = Flag("--max-lines", "The most lines of a basket.")\n',
            "web/checkout.css": ".voucher-discount { color: red }\n.basket-total { color: blue }\n",
            "web/theme.css": ".voucher-discount { color: red }\n.basket-total { color: blue }\n",
            ".github/ISSUE_TEMPLATE/bug.md": form,
            "docs/weather.md": "# Weather\n\nRain and sun.\n",
        }
    )
    with open_space(f"sqlite:{scratch.folder.parent}/space.db") as opened:
        opened.ingest("repo", input={"path": str(scratch.folder)})
        yield opened


def paths(space, prompt):
    return [one.text.split(":")[0] for one in pointers(space, prompt)]


def test_forms_and_style_sheets_are_no_places_of_code(shop):
    shown = paths(shop, "the voucher discount is missing in the basket total")
    assert shown[0] == "shop/checkout.py"
    assert not {"web/theme.css", ".github/ISSUE_TEMPLATE/bug.md"}.intersection(shown)


def test_style_sheet_that_the_prompt_is_about_is_a_place(shop):
    assert "web/theme.css" in paths(shop, "the theme has the wrong color for voucher discounts")


def test_new_name_finds_similar_definitions_by_its_words(shop):
    assert paths(shop, "add a --max-basket-lines flag")[0] == "shop/flags.py"


@pytest.mark.parametrize(
    ("prompt", "path"),
    [("make the flags better", "shop/flags.py"), ("please support weather", "docs/weather.md")],
)
def test_short_request_gets_files_named_after_its_subject(shop, prompt, path):
    assert paths(shop, prompt) == [path]


@pytest.mark.parametrize("prompt", ["make a new branch", "the checkout is better", "make it better", "make rain"])
def test_other_short_prompts_get_no_files(shop, prompt):
    assert paths(shop, prompt) == []


def test_pointer_shows_a_definition_instead_of_an_import(tmp_path):
    imports = "from shop.vouchers import (\n    discount_of_voucher,\n    expired_voucher_discount,\n)\n"
    scratch = Scratch(tmp_path / "acme")
    scratch.commit({"shop/checkout.py": f"{imports}\n\ndef apply_vouchers(basket):\n    return basket\n" + FILLER})
    with open_space(f"sqlite:{tmp_path}/space.db") as space:
        space.ingest("repo", input={"path": str(scratch.folder)})
        (place,) = pointers(space, "expired voucher discount is applied")
        assert place.text == "shop/checkout.py:7 – def apply_vouchers(basket):"
        (place,) = pointers(space, "why does it import the expired voucher discount twice?")
        assert place.text.startswith("shop/checkout.py:3 ")


@pytest.mark.parametrize(
    ("prompt", "line"),
    [
        (
            "the expired voucher discount is applied",
            "shop/voucher.ts:5 – export function discountOf(voucher: Voucher) {",
        ),
        ("why does `discountOf` return nothing?", "shop/voucher.ts:5 – export function discountOf(voucher: Voucher) {"),
        ("the checkout rounds a total with half pennies", "shop/voucher.ts:9 roundTotal – // Half pennies of a total"),
    ],
)
def test_pointer_shows_the_definition_below_a_comment(tmp_path, prompt, line):
    scratch = Scratch(tmp_path / "acme")
    doc = "/**\n * The discount of an expired voucher is applied.\n * See {@link discountOf}.\n */\n"
    code = "export function discountOf(voucher: Voucher) {\n  return voucher.value;\n}\n"
    code += "function roundTotal(total) {\n  // Half pennies of a total\n  return Math.round(total);\n}\n"
    scratch.commit({"shop/voucher.ts": doc + code, "README.md": "# Shop\n"})
    with open_space(f"sqlite:{tmp_path}/space.db") as space:
        space.ingest("repo", input={"path": str(scratch.folder)})
        assert line in [one.text for one in pointers(space, prompt)]


def test_every_place_is_about_the_prompt(shop):
    assert paths(shop, "voucher discount of the total is ignored") == ["shop/checkout.py"]


def test_prompt_with_all_words_of_a_title_gets_its_entry(space):
    quote = note(space, "There is never a release 2.0, because files opt in.")
    decide(space, "There will never be a release 2.0", quote)
    (entry,) = pointers(space, "why will there never be a release 2.0?")
    assert entry.text.startswith("Decision: There will never be a release 2.0")
    assert pointers(space, "will there be a release 2.0?") == []


def test_prompt_shows_the_outcome_of_a_decision_and_a_long_rule_to_its_end(space):
    payload = {"question": "How often is an upload sent?", "outcome": "Five times at most"}
    decide(space, "Retry limit of uploads", note(space, "Five times."), payload=payload)
    rule = f"The retry limit of uploads must not be raised, {'because of many slow proxies ' * 4}except in tests"
    decide(space, rule, note(space, "A rule."), kind="constraint", payload={"rule": rule, "scope": "repository"})
    shown = [one.text.partition("  know:")[0] for one in pointers(space, "raise the retry limit of uploads")]
    assert {
        "Decision: Retry limit of uploads: Five times at most (by an agent)",
        f"Rule: {rule} (by an agent)",
    } <= {*shown}


def test_stale_decision_is_marked_on_a_prompt(space, acme):
    quote = note(space, "Uploads are retried three times.", origin="retries.md")
    decide(space, "Uploads are retried three times", quote)
    note(space, "Uploads are never retried.", origin="retries.md")
    (entry, *_) = pointers(space.asked_from(acme), "how often are uploads retried?")
    assert entry.text.startswith("Decision: Uploads are retried three times (stale)  know:")


def test_decision_stale_on_this_branch_is_marked(space, acme):
    here = space.asked_from(acme)
    here.decide("Uploads are sent by the connection", because=["acme/upload.py:8"])
    (acme / "acme/upload.py").write_text(UPLOAD.replace("self.connection.put(file)", "None"))
    (entry, *_) = pointers(here, "how does the connection send uploads?")
    assert entry.text.startswith(
        "Decision: Uploads are sent by the connection (stale; acme/upload.py:8; by an agent)  know:"
    )


def test_matching_rules_decisions_and_work_come_first(space):
    quote = note(space, "An upload is sent again five times at most.")
    decide(space, "Cap the retry limit of uploads at five", quote)
    task(space, "Make the retry limit of uploads a setting")
    decide(space, "Colors are mixed in linear space", note(space, "Mixing is linear."))
    kinds = [one.text.split(":")[0] for one in pointers(space, "raise the retry limit of uploads")]
    assert sorted(kinds[:2]) == ["Decision", "Task"]
    assert all(kind.startswith("acme/") for kind in kinds[2:])


@pytest.mark.parametrize("prompt", ["change the 307 to 303", "uploads should use 308 instead of 307"])
def test_prompt_with_the_number_of_a_decision_gets_it(space, prompt):
    decide(space, "Moved files use 307", note(space, "A moved file is answered with 307."))
    assert pointers(space, prompt)[0].text.startswith("Decision: Moved files use 307")


@pytest.mark.parametrize("prompt", ["look at issue #307 of the tracker", "there is an error in upload.py:307 again"])
def test_number_of_a_line_or_an_issue_is_no_subject(space, prompt):
    decide(space, "Moved files use 307", note(space, "A moved file is answered with 307."))
    assert not [one for one in pointers(space, prompt) if "Moved" in one.text]


def test_rule_that_the_user_stated_is_a_pointer_marked_as_unconfirmed(space):
    said = Message(
        role="user", content="Never raise the retry limit of uploads.", at=datetime(2026, 11, 30, tzinfo=UTC)
    )
    space.perform(RECORD, input={"id": "d", "messages": [said]}, options={"propose": True})
    first, *_ = pointers(space, "raise the retry limit of uploads")
    statement = "Rule: Never raise the retry limit of uploads (said by the user on 30 Nov, not confirmed)"
    assert first.text.startswith(statement)


@pytest.mark.parametrize("is_read", [True, False])
def test_prompt_names_the_decision_that_the_branch_contradicts(tmp_path, is_read):
    scratch = Scratch(tmp_path / "acme")
    scratch.commit({"acme/limits.py": "RETRY_LIMIT = 5\n"})
    with open_space(f"sqlite:{tmp_path}/space.db") as opened:
        opened.ingest("repo", input={"path": str(scratch.folder)})
        space = opened.asked_from(scratch.folder)
        space.decide("The retry limit is five", because=["acme/limits.py:1"], why="Proxies restart slowly")
        scratch.git("checkout", "-q", "-b", "unlimited")
        scratch.commit({"acme/limits.py": "RETRY_LIMIT = None\n"})
        if is_read:
            opened.ingest("repo", input={"path": str(scratch.folder)})
        line, *_ = pointers(space, "remove the retry limit everywhere")
        (before,) = lines_before_edit(space, [FileEdit("acme/limits.py")], scratch.folder)
    contradicted = (
        'Decision: The retry limit is five (this branch changed what it states: acme/limits.py:1 is now "RETRY_LIMIT = '
        'None"; by an agent) – why: Proxies restart slowly'
    )
    assert line.text.startswith(contradicted)
    assert before.text.startswith(contradicted)


def test_candidates_without_evidence_are_no_pointers(space):
    decide(space, "Cap the retry limit of uploads at five", status="candidate")
    assert not any(one.text.startswith("Decision") for one in pointers(space, "raise the retry limit of uploads"))


def test_pointers_are_shown_once_in_a_session(space):
    found = pointers(space, "the retry limit of an upload is ignored")
    assert "acme/upload.py:10" in show_lines(space.address.file, "one", found)
    assert show_lines(space.address.file, "one", found) == ""
    assert "acme/upload.py:10" in show_lines(space.address.file, "two", found)


def test_pointers_are_dropped_from_the_end_to_fit_the_budget():
    many = [HookLine(str(number), f"src/module_{number}.py:{number} " + "words " * 12) for number in range(20)]
    text, kept = within_budget(many)
    assert 0 < len(kept) < 20
    assert kept == many[: len(kept)]
    assert estimate_tokens(text) <= MAX_TOKENS


def test_questions_about_a_job_get_its_commands(tmp_path):
    scratch = Scratch(tmp_path / "acme")
    scratch.commit({"Makefile": "test:\n\tpytest -q\n", "acme/run.py": "def run(tests):\n    return tests\n"})
    with open_space(f"sqlite:{tmp_path}/space.db") as opened:
        opened.ingest("repo", input={"path": str(scratch.folder)})
        lines = pointers(opened, "how do I run the tests")
        assert [line.text for line in lines] == ["Commands: test `make test`"]
        assert pointers(opened, "run the tests") == []
        assert opened.query("search", input={"text": "how do I run the tests"}).commands == ("test `make test`",)


VOUCHERS = """\
def voucher_of(order):
    return order.voucher


def expire_voucher(voucher, day):
    return voucher.ends < day


def discount_of_voucher(voucher, total):
    return total * voucher.discount


class Percent:
    def round_up(self, share):
        return -(-share // 1)


class Absolute:
    def round_up(self, amount):
        # of a coupon in pennies
        return amount + 1
"""


@pytest.fixture
def shop_of_vouchers(tmp_path):
    scratch = Scratch(tmp_path / "shop")
    scratch.commit(
        {
            "shop/vouchers.py": VOUCHERS + FILLER,
            "shop/orders.py": "def total(order):\n    return sum(line.price for line in order.lines)\n" + FILLER,
            "docs/discounts.md": "# Discounts\n\nA voucher has a discount. A voucher expires one day.\n",
        }
    )
    with open_space(f"sqlite:{tmp_path}/space.db") as space:
        space.ingest("repo", input={"path": str(scratch.folder)})
        yield space


def _found(space, prompt):
    return [line.text.split(" ")[0] for line in pointers(space, prompt)]


def test_documents_are_shown_if_the_prompt_is_about_them(shop_of_vouchers):
    assert _found(shop_of_vouchers, "the voucher discount is too large") == ["shop/vouchers.py:9"]
    assert "docs/discounts.md:3" in _found(shop_of_vouchers, "document that a voucher has a discount")


def test_named_definition_is_the_one_that_shares_most_with_the_prompt(shop_of_vouchers):
    (place,) = _found(shop_of_vouchers, "round_up of a coupon gives one penny too much")
    assert place == "shop/vouchers.py:19"


def test_prompt_with_a_topic_gets_the_file_named_after_it(shop_of_vouchers):
    assert _found(shop_of_vouchers, "vouchers: let me skip some holidays")[0] == "shop/vouchers.py:1"
    assert _found(shop_of_vouchers, "holidays: let me skip some weekends") == []
