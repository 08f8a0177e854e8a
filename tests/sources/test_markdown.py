from hypothesis import given, settings
from hypothesis import strategies as st

from treering.core.evidence import Lines, Section
from treering.ports.adapter import SegmentDraft
from treering.sources.reading.lines import in_file, split_lines
from treering.sources.reading.text import outline_markdown, segment_inline_markdown, segments_of_markdown

LONG = "A sentence that says enough to stand on its own in a segment, with words about storage and recall. " * 2


def segments(text: str, max_chars: int = 4_000) -> list[SegmentDraft]:
    return segments_of_markdown(outline_markdown(text), in_file("docs/guide.md", "abc"), max_chars=max_chars)


def headings(text: str) -> list[str]:
    return [segment.heading for segment in segments(text)]


def lines_of(segment: SegmentDraft) -> tuple[int, int]:
    assert isinstance(segment.locator, Lines)
    return segment.locator.start, segment.locator.end


def test_each_heading_section_is_a_segment_under_its_heading_path() -> None:
    text = f"# Guide\n\n{LONG}\n\n## Install\n\n{LONG}\n\n### Linux\n\n{LONG}\n\n## Use\n\n{LONG}\n"
    assert headings(text) == ["Guide", "Guide > Install", "Guide > Install > Linux", "Guide > Use"]
    assert [lines_of(segment) for segment in segments(text)] == [(1, 3), (5, 7), (9, 11), (13, 15)]


def test_a_segment_cites_its_file_lines_heading_and_commit() -> None:
    (only,) = segments(f"\n\n# Guide\n\n{LONG}\n\n\n")
    assert only.locator == Lines(path="docs/guide.md", start=3, end=5, commit="abc", heading="Guide")


def test_a_heading_that_only_holds_others_lives_on_in_their_path() -> None:
    (only,) = segments(f"# Guide\n\n## Install\n\n{LONG}\n")
    assert only.heading == "Guide > Install"
    assert only.text.startswith("## Install")


def test_a_heading_without_any_text_below_is_kept() -> None:
    assert [segment.text for segment in segments("# Guide\n\n## Later\n")] == ["## Later"]


def test_underlined_headings_and_formatted_ones_are_read_as_people_read_them() -> None:
    text = f"The *big* `guide`\n=================\n\n{LONG}\n\n[Install](x.md) it\n---\n\n{LONG}\n"
    assert headings(text) == ["The big guide", "The big guide > Install it"]


def test_what_looks_like_a_heading_in_code_comments_lists_and_quotations_is_none() -> None:
    text = f"# Real\n\n{LONG}\n\n```\n# code\n```\n\n<!--\n# comment\n-->\n\n- item\n\n  # in a list\n\n> # quoted\n"
    assert headings(text) == ["Real"]


def test_a_text_without_headings_is_one_segment_without_a_heading() -> None:
    (only,) = segments("Just a note.\n\nWith two paragraphs.\n")
    assert (only.heading, only.text) == ("", "Just a note.\n\nWith two paragraphs.")


def test_front_matter_is_a_data_segment_of_its_own() -> None:
    first, second = segments(f"---\ntitle: Guide\n---\n\n# Guide\n\n{LONG}\n")
    assert (first.role, first.heading, lines_of(first)) == ("data", "front matter", (1, 3))
    assert (second.role, lines_of(second)) == ("prose", (5, 7))


def test_a_rule_at_the_top_is_no_front_matter() -> None:
    assert [segment.role for segment in segments(f"---\n\n{LONG}\n\n---\n")] == ["prose"]


def test_tiny_sections_of_one_parent_share_a_segment() -> None:
    text = "# Terms\n\n## Alpha\n\nFirst.\n\n## Beta\n\nSecond.\n\n# Other\n\nThird.\n"
    assert headings(text) == ["Terms > Alpha / Beta", "Other"]


def test_a_long_section_is_cut_between_its_blocks() -> None:
    text = "# Long\n\n" + "\n\n".join(f"Paragraph {number}. {LONG}" for number in range(30))
    parts = segments(text)
    assert len(parts) > 2
    assert all(len(part.text) <= 2_000 for part in parts)
    assert all(part.text.startswith(("# Long", "Paragraph")) for part in parts)


def test_a_code_block_is_cut_only_where_it_is_too_long_itself() -> None:
    block = "```\n" + "value = compute(value)\n\n" * 120 + "```"
    text = f"# Code\n\n{LONG}\n\n{block}\n\n{LONG}\n"
    assert block in [segment.text for segment in segments(text)]
    assert all(len(segment.text) <= 500 for segment in segments(text, max_chars=500))


def test_closing_tag_stays_with_its_block() -> None:
    block = "```console\n" + "$ treering status --verbose\n" * 80 + "```"
    found = segments(f"## Run\n\n{LONG}\n\n<div>\n\n{block}\n\n</div>\n")
    assert found[-1].text.endswith("```\n\n</div>")


def test_a_line_longer_than_a_segment_is_cut_between_words() -> None:
    parts = segments("word " * 500, max_chars=400)
    assert "".join(part.text for part in parts) == "word " * 500
    assert {lines_of(part) for part in parts} == {(1, 1)}


def test_line_ends_of_windows_change_neither_lines_nor_text() -> None:
    text = f"# A\n\n{LONG}\n\n## B\n\n- one\n- two {LONG}\n"
    assert segments(text.replace("\n", "\r\n")) == segments(text)


def test_an_inline_text_is_cited_by_heading_and_offset() -> None:
    text = f"# A\r\n\r\n{LONG}\r\n\r\n# B\r\n\r\n{LONG}"
    first, second = segment_inline_markdown(text, max_chars=4_000)
    assert first.locator == Section(heading="A", offset=0)
    assert second.locator == Section(heading="B", offset=text.index("# B"))


def test_deep_nesting_is_read_without_harm() -> None:
    for text in ("> " * 20_000 + "x", "- " * 20_000 + "x", "[" * 20_000, "# " + "*" * 20_000):
        assert segments(text)


PIECES = st.sampled_from(
    [
        *("# A", "## B", "### C", "Title\n===", "Sub\n---", "", "", "text", LONG, "- item", "  - inner", "> quote"),
        *(
            "```",
            "~~~~",
            "    code",
            "| a | b |\n|---|---|\n| 1 | 2 |",
            "<!--",
            "-->",
            "<div>",
            "</div>",
            "[x]: http://y",
        ),
        *("---", "+++", "a: b", "\x0c", "a\u2028b", "#", "1. one", "\t# tab", "* * *", "\\# no"),
    ]
)


@settings(max_examples=120, deadline=None)
@given(
    st.lists(PIECES | st.text(max_size=20), max_size=25),
    st.sampled_from(["\n", "\r\n", "\r"]),
    st.integers(40, 4_000),
)
def test_every_line_that_is_not_blank_is_in_one_segment(pieces: list[str], end: str, most: int) -> None:
    text = "\n".join(pieces).replace("\n", end)
    lines = split_lines(text)
    found = outline_markdown(text)
    bare = {line for heading in found.headings for line in range(heading.start, heading.body)}
    count = [0] * len(lines)
    for segment in segments(text, most):
        start, stop = lines_of(segment)
        assert len(segment.text) <= most
        if stop > start:
            assert segment.text == "\n".join(lines[start - 1 : stop])
        else:
            assert segment.text in lines[start - 1]
        for line in range(start - 1, stop):
            count[line] += 1
    for number, line in enumerate(lines):
        if line.strip() and len(line) <= most:
            assert count[number] == 1 or (count[number] == 0 and number in bare)
