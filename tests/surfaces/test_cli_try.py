import pytest
from cli_stage import README, Stage


class TestTrying:
    def test_it_asks_the_folder_records_a_decision_and_notices_that_its_line_changed(self, stage: Stage) -> None:
        stage.commit({"README.md": README, "src/retry.py": "def retry() -> int:\n    return 3\n"})
        before = (stage.folder / "README.md").read_bytes()
        out = stage.done("try", "how often is a call retried").out
        commands = [line for line in out.splitlines() if line.startswith("$ ")]
        assert [line.split()[2] for line in commands] == ["add", "search", "decide", "add"]
        assert all(part in out for part in ("Read 2 files in ", "how often is a call retried", "Now stale: "))
        assert len(out.splitlines()) <= 40
        assert (stage.folder / "README.md").read_bytes() == before
        assert not (stage.folder / ".treering").exists()

    def test_without_git_it_reads_the_files_and_makes_a_question_of_a_heading(self, stage: Stage) -> None:
        budget = "## Retry budget\n\nThe budget is three calls a minute.\n"
        stage.write({"README.md": f"# Acme\n\n## Installation\n\nRun it.\n\n{budget}"})
        out = stage.done("try").out
        assert "Read 1 file in " in out
        assert 'search "how does retry budget work?"' in out
        assert 'Now stale: "The budget is three calls a minute" (README.md:9 changed).' in out

    @pytest.mark.parametrize(
        "line",
        [
            "We publish it on\nPyPI, and any other services.",
            "It is the default, and up to three are allowed.",
            "- Up to 20 requests",
            "The default is described in [limits][1].",
            "Run the server with the default limit of 20.",
            "The default of `--jobs` is:",
        ],
    )
    def test_a_line_that_makes_no_sense_alone_is_no_statement(self, stage: Stage, line: str) -> None:
        stage.write({"README.md": f"# Acme\n\n## Retry budget\n\n{line}\n"})
        out = stage.done("try").out
        assert 'decide "We rely on this line of README.md" --because README.md:' in out
        assert "Now stale: " in out

    def test_a_statement_that_makes_sense_alone_is_preferred(self, stage: Stage) -> None:
        stage.write(
            {"README.md": "# Acme\n\nUp to 20 of 30 things are there,\n\n`Acme` is the default\nclient here.\n"}
        )
        assert 'decide "Acme is the default client here" --because README.md:5' in stage.done("try").out

    @pytest.mark.parametrize(
        ("sentence", "question", "changed"),
        [
            (
                "The default timeout of a call is 30 seconds.",
                "what is the default timeout of a call?",
                "is 60 seconds.",
            ),
            (
                "The default mode of a call is read-only here.",
                "what is the default mode of a call?",
                "is writable here.",
            ),
            (
                "`retries` of each call defaults to `tries`.",
                "what is the default of retries?",
                "`budget` of",
            ),
        ],
    )
    def test_it_asks_for_a_default_and_changes_the_line_as_a_person_would(
        self, stage: Stage, sentence: str, question: str, changed: str
    ) -> None:
        stage.write({"README.md": f"# Acme\n\n## Retry budget\n\n{sentence}\n\nSee `budget`.\n"})
        out = stage.done("try").out
        assert f'search "{question}"' in out
        assert f"- {sentence}" in out
        (after,) = [one for one in out.splitlines() if one.strip().startswith("+ ")]
        assert changed in after
        assert "Now stale: " in out

    @pytest.mark.parametrize(
        "sentence",
        [
            "If a syntax should be in `acme` by default, open an issue.",
            "Acme uses `less` by default.",
            "`acme` without an option defaults to the server.",
            "`acme` defaults to logging each call.",
            "Values are `auto` (default) and `never`.",
        ],
    )
    def test_it_asks_for_no_default_of_the_project_or_of_a_value(self, stage: Stage, sentence: str) -> None:
        stage.write({"README.md": f"# acme\n\n## Retry budget\n\n{sentence}\n"})
        assert 'search "how does retry budget work?"' in stage.done("try").out

    @pytest.mark.parametrize(
        ("heading", "question"),
        [
            ("Using proxies", "how do I use proxies?"),
            ("Boolean flags `is_flag=True`", "how does retry budget work?"),
            ("Routing requests", "routing requests"),
        ],
    )
    def test_questions_of_headings_are_grammatical(self, stage: Stage, heading: str, question: str) -> None:
        stage.write({"README.md": f"# Acme\n\n## {heading}\n\nSet it.\n\n## Retry budget\n\nEach client retries.\n"})
        assert f'search "{question}"' in stage.done("try").out

    def test_a_line_that_nothing_in_it_can_be_changed_of_is_taken_out(self, stage: Stage) -> None:
        stage.write({"README.md": "# Acme\n\n## Retry budget\n\nEach client retries a call.\n"})
        out = stage.done("try").out
        assert "- Each client retries a call." in out
        assert "   + " not in out
        assert "Now stale: " in out

    def test_without_a_heading_it_asks_by_the_first_sentence(self, stage: Stage) -> None:
        logo = ".. image:: logo.svg\n   :alt: A logo of many colours and sizes\n"
        stage.write({"README.rst": f"Acme\n====\n\n{logo}\nThe ``acme`` client retries each call, three times.\n"})
        assert 'search "The acme client retries each call' in stage.done("try").out

    def test_asks_what_a_project_is_if_its_linked_readme_has_no_heading(self, stage: Stage) -> None:
        (stage.folder / "crate").mkdir()
        (stage.folder / "crate/README.md").write_text("# acme\n\n`acme` calls servers.\n", encoding="utf-8")
        (stage.folder / "README.md").unlink(missing_ok=True)
        (stage.folder / "README.md").symlink_to("crate/README.md")
        assert 'search "what is acme"' in stage.done("try").out

    def test_of_an_empty_folder_it_says_that_nothing_is_there(self, stage: Stage) -> None:
        assert "No results: " in stage.done("try").out
