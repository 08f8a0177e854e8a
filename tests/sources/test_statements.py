from typing import Any

import pytest

from treering.core.objects import PAYLOADS
from treering.extensions.records.statements import statements, withdrawn_as
from treering.ports.adapter import KnowledgeDraft, SegmentDraft
from treering.ports.format import is_decision_record
from treering.sources.reading.lines import in_file
from treering.sources.reading.text import is_markdown, outline_markdown, segment_text, segments_of_markdown

RECORD = """# 7. Keep the ledger in one file

Date: 2024-03-01

## Status

{status}

## Context and Problem Statement

People want one file to back up. Which store should hold the ledger?

## Considered Options

* [SQLite](sqlite.md)
* Postgres
* A folder of JSON files

## Decision Outcome

Chosen option: "SQLite", because it needs no server and survives
a power cut.

### Consequences

* Only one writer at a time.
"""


def segments_of(path: str, text: str) -> list[SegmentDraft]:
    if is_markdown(path):
        return segments_of_markdown(outline_markdown(text), in_file(path, None), max_chars=4_000)
    return segment_text(path, text, commit=None, max_chars=4_000)


def stated(path: str, text: str) -> tuple[KnowledgeDraft, ...]:
    found = statements(path, text, segments_of(path, text))
    for draft in found:
        PAYLOADS[draft.kind].model_validate(dict(draft.payload))
    return found


def payloads(path: str, text: str) -> list[dict[str, Any]]:
    return [dict(draft.payload) for draft in stated(path, text)]


def test_an_accepted_record_states_a_decision() -> None:
    text = RECORD.format(status="Accepted. Supersedes record 3.")
    (draft,) = stated("docs/decisions/0007-one-file.md", text)
    assert (draft.kind, draft.title) == ("decision", "Keep the ledger in one file")
    assert draft.payload == {
        "question": "Which store should hold the ledger?",
        "outcome": "SQLite",
        "rationale": "it needs no server and survives a power cut.",
        "alternatives": ["SQLite", "Postgres", "A folder of JSON files"],
    }


def test_a_decision_points_at_the_segment_that_states_it() -> None:
    path, text = "docs/adr/0007.md", RECORD.format(status="Accepted")
    (draft,) = stated(path, text)
    assert "Chosen option" in segments_of(path, text)[draft.segment].text


def test_a_short_record_states_its_first_paragraph_and_its_context() -> None:
    text = "# Use trigrams\n\n## Context\n\nIdentifiers were not found.\n\n## Decision\n\nWe index trigrams.\n\nMore.\n"
    (draft,) = stated("doc/adr/adr-0002-trigrams.md", text)
    assert draft.payload == {
        "question": "Use trigrams",
        "outcome": "We index trigrams.",
        "rationale": "Identifiers were not found.",
        "alternatives": [],
    }


@pytest.mark.parametrize(
    "status", ["Superseded by 0009", "Rejected", "**Deprecated**", "Proposed", "Accepted, then withdrawn"]
)
def test_a_record_that_is_not_in_force_states_nothing(status: str) -> None:
    assert stated("docs/adr/0007-one-file.md", RECORD.format(status=status)) == ()


@pytest.mark.parametrize(
    ("heading", "status"),
    [
        ("Status\n------", "Rejected"),
        ("## **Status**", "Rejected"),
        ("  ## 1. Status ##", "Rejected"),
        ("## Status", "#12: Rejected"),
        ("```\n# status\naccepted\n```\n\n## Status", "Rejected"),
    ],
)
@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_status_section_is_found_in_any_markup(heading: str, status: str, end: str) -> None:
    text = RECORD.format(status=status).replace("## Status", heading).replace("\n", end)
    assert stated("docs/adr/0007-one-file.md", text) == ()
    assert withdrawn_as(text) == "rejected"


@pytest.mark.parametrize(
    ("path", "is_record"),
    [
        ("docs/adr/0001-a.md", True),
        ("docs/architecture_decisions/0004-search-index.md", True),
        ("adr-1.md", True),
        ("rfcs/0012-a.rst", True),
        ("docs/decisions/README.md", False),
        ("docs/adr/0000-adr-template.md", False),
        ("docs/adr/adr-template.md", False),
        ("src/decisions/model.py", False),
        ("docs/guide.md", False),
    ],
)
def test_record_is_known_by_its_path(path: str, is_record: bool) -> None:
    assert is_decision_record(path) == is_record


@pytest.mark.parametrize("line", ["---\nstatus: rejected\n---\n", "* Status: superseded by [9](9.md)\n\n"])
def test_a_status_outside_its_section_counts_too(line: str) -> None:
    text = line + RECORD.replace("## Status\n\n{status}\n\n", "")
    assert stated("docs/adr/0007-one-file.md", text) == ()
    in_force = text.replace("rejected", "accepted").replace("superseded by", "accepted with")
    assert len(stated("docs/adr/0007-one-file.md", in_force)) == 1


def test_a_record_is_known_by_its_headings_wherever_it_is() -> None:
    assert len(stated("notes/storage.md", RECORD.format(status="Accepted"))) == 1


def test_indexes_templates_and_other_documents_state_no_decision() -> None:
    text = RECORD.format(status="Accepted")
    assert stated("docs/adr/README.md", text) == ()
    assert stated("docs/adr/template.md", text) == ()
    assert stated("docs/guide.md", "# Guide\n\n## Decision\n\nTake the left path.\n") == ()


def test_rules_are_the_sentences_that_command_or_forbid() -> None:
    text = """# Contributing

Thanks! We never sleep. If you do not know where to start, ask.

- All changes **must** come with a test. Otherwise they will not be merged.
- Never commit generated files.
- Please do not open issues for questions.

Is a signed commit required? No signature is required.

```
You must not read this as a rule.
```
"""
    assert payloads("CONTRIBUTING.md", text) == [
        {
            "rule": "All changes must come with a test.",
            "scope": "repository",
            "violation_impact": "Otherwise they will not be merged.",
        },
        {"rule": "Never commit generated files.", "scope": "repository", "violation_impact": ""},
        {"rule": "Please do not open issues for questions.", "scope": "repository", "violation_impact": ""},
    ]


def test_rules_of_a_subfolder_hold_there() -> None:
    (rule,) = payloads("services/billing/AGENTS.md", "Money values must be integers of cents.\n")
    assert rule["scope"] == "services/billing"


def test_rules_are_read_from_plain_text_too_and_are_at_most_thirty() -> None:
    text = "\n\n".join(f"Module {number} must be documented." for number in range(50))
    assert len(payloads("CONTRIBUTING", text)) == 30
    assert len(payloads("CONTRIBUTING.rst", text)) == 30


def test_other_documents_set_no_rules() -> None:
    assert stated("docs/guide.md", "You must turn the handle.\n") == ()


def test_rules_of_editors_and_agents_hold_for_the_files_that_they_name() -> None:
    matter = "---\ndescription: Pages\nglobs: web/**/*.ts, web/*.css\n---\n\nNever use a global style.\n"
    (one,) = stated(".cursor/rules/pages.mdc", matter)
    assert (one.payload["rule"], one.payload["scope"]) == ("Never use a global style.", "web/**/*.ts, web/*.css")
    for path in (".cursorrules", ".github/copilot-instructions.md", "GEMINI.md", ".windsurf/rules/all.md"):
        (one,) = stated(path, "Always write a test for a fault.\n")
        assert one.payload["scope"] == "repository", path


def rules(path: str, text: str) -> list[str]:
    return [payload["rule"] for payload in payloads(path, text)]


@pytest.mark.parametrize(
    "sentence",
    [
        "However, care must be taken to do so in an appropriate forum.",
        "It must be an absolute path.",
        "To calculate test coverage you must first install the plugin.",
        "The version number must be updated in three places:",
        "We may not always agree, but disagreement is no excuse for poor manners.",
        "Great ideas that I do not like may not be accepted.",
        "None of these steps should be considered mandatory.",
        "Some features may require libraries that the user must install.",
    ],
)
def test_sentences_without_a_rule_of_their_own_are_not_proposed(sentence: str) -> None:
    assert rules("CONTRIBUTING.md", f"# Contributing\n\n{sentence}\n") == []


@pytest.mark.parametrize(
    "sentence",
    [
        "All Python code must follow PEP 8.",
        "Please do not open pull requests for new features without prior discussion.",
        "If you change the schema, always write a migration.",
        "Wild-card imports must not be used.",
    ],
)
def test_sentences_that_state_a_rule_are_proposed(sentence: str) -> None:
    assert rules("CONTRIBUTING.md", f"# Contributing\n\n{sentence}\n") == [sentence]


def test_rules_in_nested_lists_are_separate() -> None:
    text = "# Rules\n\n- **ALWAYS use `vi.waitFor`**\n  - It is faster than polling\n  - NEVER poll by hand in tests\n"
    assert rules(".cursor/rules/tests.mdc", text) == ["ALWAYS use `vi.waitFor`", "NEVER poll by hand in tests"]


def test_short_rules_have_the_heading_in_their_title() -> None:
    (draft,) = stated("STYLE.md", "# Style\n\n## Naming uv\n\nDo not capitalize in sentences.\n")
    assert draft.title == "Naming uv: Do not capitalize in sentences."


@pytest.mark.parametrize(
    "sentence",
    [
        "Prefer `let` chains over nested `if` statements.",
        "Naming: Use camelCase for file names.",
        "When a function takes many parameters, use an options object.",
        "Tests should confirm behavior, not implementation.",
    ],
)
def test_imperatives_are_rules_only_in_places_of_rules(sentence: str) -> None:
    for path, heading in (("AGENTS.md", "Code"), ("STYLE.md", "Code"), ("CONTRIBUTING.md", "Code style")):
        assert rules(path, f"# Guide\n\n## {heading}\n\n- {sentence}\n") == [sentence], path
    if "Prefer" not in sentence:
        assert rules("CONTRIBUTING.md", f"# Guide\n\n## First steps\n\n- {sentence}\n") == []


@pytest.mark.parametrize(
    "item",
    [
        "Return type changes (list to iterator)",
        "Test helpers first",
        "Should have a clear flow.",
        "If so, always ask in the issue.",
        "Do not repeat these steps.",
        "Never hardcode colors here.",
        "The two must agree on formats.",
        'Example: "Should we rename it?"',
        "New settings that should be documented",
        "Use them for status lines.",
    ],
)
def test_items_torn_from_their_list_are_not_proposed(item: str) -> None:
    assert rules("AGENTS.md", f"# Agents\n\n- {item}\n") == []


def test_globs_in_brackets_are_the_scope_of_a_rule() -> None:
    (one,) = payloads(".cursor/rules/a.mdc", "---\nglobs: ['**/*.ts', \"**/*.md\"]\n---\n\nNever use `any`.\n")
    assert one["scope"] == "**/*.ts, **/*.md"


def test_pages_about_agents_set_no_rules() -> None:
    assert stated("docs/agents.md", "Always call the agent with a context.\n") == ()


def test_a_chosen_option_with_a_list_of_reasons_is_the_outcome() -> None:
    text = RECORD.format(status="Accepted").replace(
        "because it needs no server and survives\na power cut.", "because\n\n* It needs no server.\n* It is one file."
    )
    (draft,) = stated("docs/adr/0007-one-file.md", text)
    assert (draft.payload["outcome"], draft.payload["rationale"]) == (
        "SQLite",
        "It needs no server. * It is one file.",
    )


def test_a_question_that_refers_back_gives_way_to_the_title() -> None:
    text = RECORD.format(status="Accepted").replace("Which store should hold the ledger?", "Should this be one file?")
    (draft,) = stated("docs/adr/0007-one-file.md", text)
    assert draft.payload["question"] == "Keep the ledger in one file"


def test_a_template_of_records_states_no_decision() -> None:
    text = "# {{name}}\n\n## Context\n\n## Considered Options\n\n## Decision Outcome\n\nChosen option: [option 1]\n"
    assert stated("docs/adr/madr.md", text) == ()


def test_options_with_pros_and_cons_are_the_alternatives() -> None:
    options = "**Option 1:** A pool.\n- Fast\n- Known\n\n**Option 2:** No pool.\n- Simple\n"
    text = f"# Pool\n\n## Context\n\nSlow.\n\n## Considered Options\n\n{options}\n## Decision\n\nA pool.\n"
    (draft,) = stated("docs/adr/0003-pool.md", text)
    assert draft.payload["alternatives"] == ["A pool.", "No pool."]
