import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from treering.core.characters import label, one_line, printable, unprinted, visible, visible_json, visible_line

OBEYED = "\x00\x07\x08\x0b\x0c\x1b\x7f\x80\x85\x9b\x9f\u2028\u2029\u202a\u202e\u2066\u2069"


def test_what_a_terminal_obeys_is_written_out():
    assert visible("a\x1b]0;x\x07\x9b2J\x7f\u202eb\u2028c") == "a\\x1b]0;x\\x07\\x9b2J\\x7f\\u202eb\\u2028c"
    assert visible("a\tb\nc\r\nd\re") == "a\tb\nc\r\nd\\x0de"
    assert visible_line("a\nb\tc") == "a\\x0ab\\x09c"


@pytest.mark.parametrize(
    "name", [b"caf\xe9.md", b"\xff\xfe/\x83.txt", b"a\tb\x01c\n.md", "ü\u202e.md".encode(), b"plain.md"]
)
def test_a_printed_name_leads_back_to_its_bytes(name):
    assert unprinted(printable(name)).encode("utf-8", "surrogateescape") == name


def test_a_printed_name_holds_no_way_to_another_folder():
    assert unprinted("a\\x2f\\x2e\\x00\\u002f") == "a\\x2f\\x2e\\x00\\u002f"


def test_text_of_other_scripts_stays_as_it_is():
    for text in ("שלום\u200f", "Ünïcödé — 東京", "👩\u200d🔬", "ไทย"):
        assert visible(text) == text


@given(st.text() | st.text(alphabet=OBEYED + 'a"\\'))
@settings(max_examples=60)
def test_json_stays_equal_and_holds_nothing_a_terminal_obeys(text):
    written = visible_json(json.dumps({text: [text]}, ensure_ascii=False))
    assert json.loads(written) == {text: [text]}
    assert not set(written) & set(OBEYED)


@given(st.text() | st.text(alphabet=OBEYED + '\n\r`*[]<>"\\# \u200b\u2060a'))
@settings(max_examples=100)
def test_a_label_is_one_short_quoted_line_in_which_nothing_begins(text):
    written = label(text)
    inner = written[1:-1]
    assert written[0] == written[-1] == '"'
    assert len(written.splitlines()) == 1
    assert len(inner) <= 240
    assert not set(inner) & set('"<>\u200b\u2060' + OBEYED)
    bare = inner.replace("\\\\", "")
    assert all(bare[at - 1] == "\\" for at, sign in enumerate(bare) if sign in "`*[]")


@pytest.mark.parametrize("length", [120, 121, 10_000_000])
def test_a_line_is_cut_where_it_is_too_long(length):
    assert one_line("x" * length) == ("x" * 120 if length == 120 else "x" * 119 + "…")
