import json

from hypothesis import given, settings
from hypothesis import strategies as st

from treering.core.evidence import Lines, Section
from treering.ports.adapter import SegmentDraft
from treering.sources.reading.lines import split_lines
from treering.sources.reading.text import role_of, segment_inline_text, segment_text

PARAGRAPH = "Some words about how rings of a tree are counted, and why they matter to those who count. " * 4


def segments(path: str, text: str, max_chars: int = 4_000) -> list[SegmentDraft]:
    return segment_text(path, text, commit=None, max_chars=max_chars)


def test_plain_text_is_packed_paragraph_by_paragraph() -> None:
    text = "\n\n".join(f"{number}. {PARAGRAPH}" for number in range(8))
    parts = segments("notes.txt", text)
    assert 2 < len(parts) < 8
    assert all(len(part.text) <= 1_300 for part in parts)
    assert all(part.text[0].isdigit() for part in parts)


def test_underlined_titles_of_restructured_text_are_heading_paths() -> None:
    text = f"=====\nGuide\n=====\n\n{PARAGRAPH}\n\nInstall\n-------\n\n{PARAGRAPH}\n\nUse\n---\n\n{PARAGRAPH}\n"
    assert [part.heading for part in segments("guide.rst", text)] == ["Guide", "Guide > Install", "Guide > Use"]


def test_adornment_in_a_literal_block_or_table_is_no_title() -> None:
    text = f"Guide\n=====\n\n{PARAGRAPH}::\n\n    title\n    -----\n\n=====  =====\na      b\n=====  =====\n"
    assert {part.heading for part in segments("guide.rst", text)} == {"Guide"}


def test_toml_is_cut_between_tables_that_keep_their_comments() -> None:
    rows = "\n".join(f'key{number} = "{"v" * 40}"' for number in range(20))
    parts = segments("settings.toml", f"title = 1\n\n[one]\n{rows}\n\n# about two\n[two]\n{rows}\n")
    assert [part.heading for part in parts] == ["one", "two"]
    assert parts[1].text.startswith("# about two\n[two]")
    assert {part.role for part in parts} == {"data"}


def test_a_translation_catalogue_is_cut_between_entries_that_keep_their_translation() -> None:
    entries = [
        f'#: shop/views.py:{n}\nmsgctxt "page {n}"\nmsgid "Your order {n} is on its way."\n'
        f'msgstr "Deine Bestellung {n} ist unterwegs."'
        for n in range(60)
    ]
    drafts = segment_text("locale/de/django.po", "\n\n".join(entries) + "\n", commit=None, max_chars=4_000)
    assert [entry for draft in drafts for entry in draft.text.split("\n\n")] == entries
    assert max(len(draft.text) for draft in drafts) <= 2_000
    found = next(draft for draft in drafts if "Bestellung 41 ist" in draft.text)
    assert isinstance(found.locator, Lines)
    assert found.locator.start <= 41 * 5 + 4 <= found.locator.end


def test_yaml_and_json_are_cut_between_top_level_keys() -> None:
    yaml = "".join(f"{name}:\n" + f"  - {'x' * 60}\n" * 15 for name in ("first", "second"))
    assert [part.heading for part in segments("a.yaml", yaml)] == ["first", "second"]
    as_json = json.dumps({"first": ["x" * 60] * 15, "second": {"inner": ["y" * 60] * 15}}, indent=2)
    assert [part.heading for part in segments("a.json", as_json)] == ["first", "second"]


def test_code_without_a_parser_has_the_role_of_code() -> None:
    assert [part.role for part in segments("build.lua", "local x = 1\n")] == ["code"]
    assert (role_of("Makefile"), role_of("go.mod"), role_of("LICENSE"), role_of(".editorconfig")) == (
        "code",
        "data",
        "prose",
        "data",
    )


def test_one_endless_line_is_cut_into_parts_of_the_same_line() -> None:
    parts = segments("data.json", "[" + "1234567890," * 1_000 + "0]", max_chars=1_000)
    assert all(len(part.text) <= 1_000 for part in parts)
    assert {part.locator.cite() for part in parts} == {"data.json#L1-L1"}


def test_an_inline_text_is_cited_by_offset() -> None:
    text = "\n\n".join([PARAGRAPH] * 8)
    parts = segment_inline_text(text, max_chars=4_000)
    assert len(parts) > 1
    for part in parts:
        assert isinstance(part.locator, Section)
        assert text[part.locator.offset :].startswith(part.text)


PIECES = st.sampled_from(
    [
        *(
            "Title",
            "=====",
            "-----",
            "",
            "",
            "text",
            PARAGRAPH,
            "  indented",
            "::",
            "[table]",
            "# comment",
            "key: value",
        ),
        *('  "member": [', "  }", "{", "- item", "<a>", "\t<b/>", "\x0b", "x" * 300, "..", "......"),
    ]
)


@settings(max_examples=120, deadline=None)
@given(
    st.sampled_from(["a.txt", "a.rst", "a.toml", "a.yaml", "a.json", "a.xml", "a.csv", "a.lua"]),
    st.lists(PIECES, max_size=25),
    st.integers(20, 2_000),
)
def test_every_line_that_is_not_blank_is_in_one_segment(path: str, pieces: list[str], most: int) -> None:
    lines = split_lines("\n".join(pieces))
    count = [0] * len(lines)
    parts = segments(path, "\n".join(pieces), most)
    for part in parts:
        assert isinstance(part.locator, Lines)
        assert len(part.text) <= most
        for line in range(part.locator.start - 1, part.locator.end):
            count[line] += 1
    for number, line in enumerate(lines):
        if line.strip() and len(line) <= most:
            in_a_path = any(line.strip() in part.heading for part in parts) or set(line) <= set("=-.")
            assert count[number] == 1 or (count[number] == 0 and path in ("a.txt", "a.rst") and in_a_path)
