"""Which sentences of users set a rule, and which ask for something once or only narrate."""

import pytest

from treering.extensions.statements.outcomes import outcomes_of

RULES = (
    ("No, never use time.time() here, use time.perf_counter() instead.", "Never use time.time() here, use"),
    ("No, we never call requests directly, everything goes through transport.", "We never call requests directly"),
    ("no, don't use mocks in tests, use respx", "Don't use mocks in tests, use respx"),
    ("That's wrong, never call print in library code, use the logger.", "Never call print in library code"),
    ("Stop using assert for validation, raise ValueError instead.", "Stop using assert for validation"),
    ("No – never use eval, even in scripts.", "Never use eval"),
    ("Actually, don't catch bare exceptions.", "Don't catch bare exceptions"),
    ("Hmm no, never use global state for settings.", "Never use global state"),
    ("Wrong. Don't use mocks in tests.", "Don't use mocks in tests"),
    ("I want you to never touch generated files.", "Never touch generated files"),
    ("Every new public parameter must be documented in docs/api.md.", "Every new public parameter must be"),
    ("From now on, every new setting must have a default.", "Every new setting must have a default"),
    ("From now on use pathlib instead of os.path.", "Use pathlib instead of os.path"),
    ("and from now on don't add type comments", "Don't add type comments"),
    ("In tests, always close the client.", "Always close the client"),
    ("Please make sure to always run the formatter before a commit.", "Always run the formatter"),
    ("You should never log the token.", "Never log the token"),
    ("Don't raise bare Exception, use a subclass of TransportError instead.", "Don't raise bare Exception, use"),
    ("- Never write to stdout from the server", "Never write to stdout"),
    ("Always limit lines to 100 characters.", "Always limit lines to 100"),
    ("Never use HTTP 302, use 303.", "Never use HTTP 302"),
    ("No, don't use a regular expression there, use strings.HasPrefix.", "Don't use a regular expression there, use"),
    ("No, don't use a mutex in the router, use atomics.", "Don't use a mutex in the router, use atomics"),
    ("Don't use time.Sleep in tests.", "Don't use time.Sleep in tests"),
    ("We don't add new dependencies to gin.", "We don't add new dependencies to gin"),
    ("Use assert.Equal instead of reflect.DeepEqual in tests.", "Use assert.Equal instead of reflect.DeepEqual"),
    ("We don't log requests.", "We don't log requests"),
    ("No that's wrong, use context.Background instead of nil.", "Use context.Background instead of nil"),
    ("No, use errors.Is rather than string comparison.", "Use errors.Is rather than string"),
    ("No, that's not right. We never allocate in tree.getValue.", "We never allocate in tree.getValue"),
    ("No pull request must change more than one package.", "No pull request must change"),
)
NO_RULES = (
    "don't run the tests now",
    "No, don't run the tests yet.",
    "No, don't worry about the docs.",
    "No, don't change that file, only the test.",
    "No, use the second one.",
    "No, don't rename the class.",
    "Wait, no, don't rename Session.",
    "No, don't write docs for it.",
    "Actually, don't you think we should keep it instead.",
    "Wait, don't commit until I have looked at it.",
    "Should we never use eval?",
    "No, why did you never call close?",
    "I never use sleep in tests.",
    "We always had trouble with this one.",
    "We should never have merged it.",
    "Black coffee, always black coffee.",
    "I ran it twice, always get the same error.",
    "That's wrong, the timeout is 5 seconds.",
    "All the tests must pass before you commit, so check them.",
    "Something must be wrong with the cache.",
    '"Never use eval" is what the linter prints.',
    'The docs say "always close the client".',
    "> Never use print here.",
    "Actually don't skip tests 4 and 5",
    "No, don't use step 3 of the plan.",
    "Don't use option B, use option A instead.",
    "Never use the second option.",
    "Don't merge #41 and #42, use a new one.",
    "Actually don't use steps four and five",
    "Never push anything in this pull request.",
    "Don't use fmt.Println there, use debugPrint.",
    "Don't use a mutex, use atomics.",
    "No, don't use a mutex.",
    "Use Redis instead of Postgres.",
    "No, use the new name instead of the old one.",
    "Don't use the helper in these tests.",
    "We don't add up.",
    "We don't get many visitors.",
    "Use it in tests.",
    "Add a test for it, don't touch the rest.",
)


@pytest.mark.parametrize(("said", "beginning"), RULES)
def test_rule_or_correction_is_a_rule(said: str, beginning: str) -> None:
    (rule,) = outcomes_of(f"Thanks for the patch. {said}")
    assert rule.kind == "rule"
    assert rule.content.startswith(beginning)


@pytest.mark.parametrize("said", NO_RULES)
def test_question_narration_quote_and_single_request_are_no_rule(said: str) -> None:
    assert [one for one in outcomes_of(f"Thanks for the patch. {said}") if one.kind == "rule"] == []
