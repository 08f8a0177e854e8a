from dataclasses import replace

import pytest
from recollection_parts import SETTINGS, TALK, Script, opened, said, talked

from treering.core.errors import InvalidInput, NotFound
from treering.extensions.discussions.summaries.lines import with_manual_lines
from treering.extensions.discussions.summaries.state import MAX_LINES

DOCUMENT = "# Boat\n- red\n- in Turin\n\n# People\n- Ada"


def stated(space, document=DOCUMENT):
    """A discussion with a state document, and the script whose answer is the next one."""
    script = Script(merge_with=lambda _facts, _document: document)
    return talked(space, TALK[0], script=script), script


def answer(script, text):
    script.merge_with = lambda _facts, _document: text


def go_on(discussion, *texts):
    discussion.append(said(*texts, start=discussion.log.count()))
    discussion.update()


def test_the_facts_of_each_chunk_are_merged_into_the_document(space):
    script = Script()
    discussion = talked(space, *TALK[:2], script=script)
    assert script.merged == [f"- {TALK[0]}", f"- {TALK[1]}"]
    assert discussion.state() == f"- {TALK[0]}\n- {TALK[1]}"
    assert [version.last for version in discussion.state_versions()] == [0, 1]


@pytest.mark.parametrize("shrunk", ["", "  \n", "# Boat"])
def test_empty_or_halved_state_answer_is_rejected(space, shrunk):
    discussion, script = stated(space)
    answer(script, shrunk)
    go_on(discussion, TALK[1])
    assert discussion.state() == DOCUMENT
    answer(script, f"{DOCUMENT}\n- Ben")
    go_on(discussion, TALK[2])
    assert script.merged[-1] == f"- {TALK[1]}\n- {TALK[2]}"
    assert discussion.state() == f"{DOCUMENT}\n- Ben"


def test_a_memory_of_several_lines_is_one_fact(space):
    script = Script()
    talked(space, "first line\n\n# no heading\n- no point", script=script)
    assert script.merged == ["- first line # no heading - no point"]


def test_a_line_a_person_wrote_stays_whatever_the_generator_answers(space):
    discussion, script = stated(space)
    discussion.edit_state(DOCUMENT.replace("- in Turin", "- in Turin\n- insured until 2030"))
    go_on(discussion, TALK[1])
    assert discussion.state() == "# Boat\n- red\n- in Turin\n- insured until 2030\n\n# People\n- Ada"
    answer(script, "# People\n- Ada\n- Ben\n- Cleo\n- Dan")
    go_on(discussion, TALK[2])
    assert discussion.state() == "# People\n- Ada\n- Ben\n- Cleo\n- Dan\n\n# Boat\n- insured until 2030"


def test_a_line_a_person_struck_out_stays_out_until_a_person_writes_it_again(space):
    discussion, _ = stated(space)
    discussion.edit_state(DOCUMENT.replace("- red\n", ""))
    go_on(discussion, TALK[1])
    assert "- red" not in discussion.state()
    discussion.edit_state(DOCUMENT)
    go_on(discussion, TALK[2])
    assert discussion.state() == DOCUMENT


def test_a_line_a_person_wrote_and_took_out_again_is_not_restored(space):
    discussion, _ = stated(space)
    discussion.edit_state(f"{DOCUMENT}\n- Zoe")
    discussion.edit_state(DOCUMENT)
    go_on(discussion, TALK[1])
    assert discussion.state() == DOCUMENT


def test_an_edit_of_an_older_version_is_merged_with_what_came_since(space):
    discussion, script = stated(space)
    base = discussion.state_versions()[-1]
    answer(script, f"{DOCUMENT}\n- Ben")
    go_on(discussion, TALK[1])
    discussion.edit_state(base.text.replace("- red", "- blue"), base=base.id)
    assert discussion.state() == f"{DOCUMENT.replace('- red', '- blue')}\n- Ben"
    assert len(discussion.state_versions()) == 3, "every version is kept"


def test_the_same_edit_again_on_its_old_base_writes_nothing(space):
    discussion, script = stated(space)
    base = discussion.state_versions()[-1]
    answer(script, f"{DOCUMENT}\n- Ben")
    go_on(discussion, TALK[1])
    edited = base.text.replace("- red", "- blue")
    version = discussion.edit_state(edited, base=base.id)
    assert discussion.edit_state(edited, base=base.id).id == version.id


def test_an_edit_while_the_generator_works_is_not_lost(space):
    discussion, script = stated(space)

    def edited_meanwhile(_facts, document):
        if "- mine" not in document:
            discussion.edit_state(f"{document}\n- mine")
        return f"{DOCUMENT}\n- generated"

    script.merge_with = edited_meanwhile
    go_on(discussion, TALK[1])
    assert discussion.state() == f"{DOCUMENT}\n- generated\n- mine"


def test_what_a_person_wrote_outlives_the_rewind_of_what_it_stood_beside(space):
    script = Script()
    discussion = talked(space, *TALK[:3], script=script)
    discussion.edit_state(f"{discussion.state()}\n- mine")
    discussion.record(said(*TALK[:1]), start=0)
    assert discussion.state() == f"- {TALK[0]}\n- mine"
    go_on(discussion, "Something else")
    assert discussion.state() == f"- {TALK[0]}\n- mine\n- Something else"


def test_a_document_may_be_written_by_hand_before_anything_else(space):
    discussion = opened(space)
    discussion.edit_state("# Plan\n- sail")
    assert discussion.state() == "# Plan\n- sail"
    go_on(discussion, TALK[0])
    assert discussion.state() == f"# Plan\n- sail\n- {TALK[0]}"


def test_an_edit_that_changes_nothing_writes_nothing_and_an_unknown_base_is_refused(space):
    discussion, _ = stated(space)
    (version,) = discussion.state_versions()
    assert discussion.edit_state(f"{DOCUMENT}\n").id == version.id
    assert discussion.edit_state(DOCUMENT, base=version.id).id == version.id
    with pytest.raises(NotFound):
        discussion.edit_state("other", base="know:none")
    assert len(discussion.state_versions()) == 1


def test_a_state_document_has_a_most_of_lines_which_the_error_names(space):
    discussion, _ = stated(space)
    with pytest.raises(InvalidInput, match=f"20001 lines; the maximum is {MAX_LINES}"):
        discussion.edit_state("- x\n" * (MAX_LINES + 1))
    assert discussion.state() == DOCUMENT


def test_a_long_state_document_takes_an_edit_of_every_line(space):
    discussion, _ = stated(space)
    for part in "ab":
        discussion.edit_state("\n".join(f"- {part} {number // 2}" for number in range(5_000)))
    assert len(discussion.state().splitlines()) == 5_000


def test_without_a_state_document_in_the_settings_none_is_kept(space):
    script = Script()
    discussion = talked(space, script=script, settings=replace(SETTINGS, state=False))
    assert (discussion.state(), script.merged) == ("", [])


@pytest.mark.parametrize(
    ("text", "earlier", "written", "whole"),
    [
        ("", "", ["a"], "a"),
        ("# A\n- x\n\n# B\n- y", "# A\n- mine\n# B", ["- mine"], "# A\n- x\n- mine\n\n# B\n- y"),
        ("# B\n- y", "# A\n- mine\n- too", ["- mine", "- too"], "# B\n- y\n\n# A\n- mine\n- too"),
        ("# B\n- y", "# A\n- mine", ["# A", "- mine"], "# B\n- y\n# A\n- mine"),
        ("- y", "- one\n- two", ["- two", "- one"], "- y\n- one\n- two"),
        ("- y\n  - mine  ", "", ["- mine"], "- y\n  - mine"),
    ],
)
def test_a_missing_line_returns_under_its_heading(text, earlier, written, whole):
    assert with_manual_lines(text, earlier, written=written, struck=()) == whole


def test_heading_that_a_person_deleted_does_not_return_with_a_line():
    earlier = "# A\n- mine"
    assert with_manual_lines("# B\n- y", earlier, written=["- mine"], struck=["# A"]) == "# B\n- y\n- mine"


DELETED = "- Ada: we hire Quill. The price is 4 (was: we hire Oak) [2024-05-01, message 3]"


@pytest.mark.parametrize(
    ("line", "is_deleted"),
    [
        ("- Ada: we hire Quill. The price is 4 [2024-05-01, message 3]", True),
        ("- Ada: we hire Quill. The price is 4 (until then: we hire Ash) [2024-05-01, message 3]", True),
        ("- Ada: we hire Quill (may have been replaced: Elm it is) [2024-05-01, message 3]", True),
        ("- Ada: The price is 4 – about: Quill [2024-05-01, message 3]", True),
        ("- Ada: we hire Quill. The price is 4 (was: we hire Oak) [2024-05-01, message 7]", False),
        ("- Ada: we hire Elm (was: we hire Quill) [2024-05-01, message 3]", False),
        ("- Ada: we hire Quill", False),
    ],
)
def test_deleted_statement_stays_deleted_with_other_notes(line, is_deleted):
    text = f"# A\n- x\n{line}"
    assert with_manual_lines(text, text, written=(), struck=[DELETED]) == ("# A\n- x" if is_deleted else text)


def test_line_that_a_person_wrote_stays_though_a_like_one_was_deleted():
    mine = DELETED.replace("Oak", "Ash")
    assert with_manual_lines("# A", f"# A\n{mine}", written=[mine], struck=[DELETED]) == f"# A\n{mine}"
