"""What pages are read from: signatures, docs, prose and headings, by rules for each language."""

import pytest
from bakery import Bakery, wiki
from markdown_it import MarkdownIt

from treering.extensions.code.parsing.outline import outline
from treering.extensions.wiki.files.links import quoted_path, unquoted
from treering.extensions.wiki.repository.prose import first_paragraph, first_sentence, words_of
from treering.extensions.wiki.repository.sections import blocks_of, outline_document
from treering.extensions.wiki.repository.signatures import after_name, shortened
from treering.extensions.wiki.rules.markdown import paragraph_start, plain, shown

LANGUAGES = {
    "package.json": '{"name": "@shop/web", "version": "1.0.0"}\n',
    "src/compose.ts": (
        "/**\n * @module\n * Puts handlers together.\n */\n\nimport type { Context } from './context'\n\n"
        "/** Puts two together. It keeps order. */\n"
        "export const compose = <T>(one: T, other?: T): Context => {\n  return run(one)\n}\n\nconst hidden = 1\n"
    ),
    "src/context.ts": "/** What a handler gets. */\nexport interface Context {\n  get(key: string): unknown\n}\n",
    "go/money.go": (
        "// Licensed under MIT.\n\n// Package money counts.\npackage money\n\n"
        "// Round rounds up. Always.\nfunc Round(cents int) int {\n\treturn cents\n}\n\nfunc inner() {}\n"
    ),
    "till/src/lib.rs": (
        "//! The till.\n\n/// Opens it.\npub fn open(coins: u32) -> bool {\n    true\n}\n\nfn shut() {}\n"
    ),
}


@pytest.mark.parametrize(
    ("path", "address"),
    [
        ("docs/caf\\xe9.md", "docs/caf%E9.md"),
        ("\\xff\\xfe/ü.md", "%FF%FE/%C3%BC.md"),
        ("a\\b.md", "a%5Cb.md"),
    ],
)
def test_an_address_has_the_bytes_of_the_name(path, address):
    assert quoted_path(path) == address
    assert unquoted(address) == path


def told(text):
    return "".join(one.text for one in words_of(text))


LONG = "(aaaaaaaaaaaaaaaaaaaa, bbbbbbbbbbbbbbbbbbbb, cccccccccccccccccccc, …)"
"""Of a signature that is too long to be stored as a whole."""


def read(line, name, suffix):
    [symbol] = [one for one in outline(f"a.{suffix}", line).symbols if one.name == name]
    return shortened(after_name(symbol.signature, name), 90)


@pytest.mark.parametrize(
    ("line", "name", "suffix", "signature"),
    [
        ("def f(a: int = 1, *, b=(2, 3)) -> dict[str, int]:", "f", "py", "(a: int = 1, *, b=(2, 3)) -> dict[str, int]"),
        ("def f(  # type: ignore[override]\n    self, a\n):\n    pass", "f", "py", "(self, a)"),
        ("class A(B, metaclass=C):\n    pass", "A", "py", "(B, metaclass=C)"),
        ("export const f = async (a?: A | B): Promise<C> => {}", "f", "ts", "(a?: A | B): Promise<C>"),
        ("exports.f = function f(a, b) {}", "f", "js", "(a, b)"),
        ("class G {\n  f<\n    T extends {} = {},\n  >(a: T): T {}\n}", "f", "ts", "(a: T): T"),
        ("func (c *Cart) Add(price int) (int, error) {}", "Add", "go", "(price int) (int, error)"),
        ("type Cart struct {}", "Cart", "go", ""),
        ("pub fn f<T: Into<u8>>(a: T) -> Vec<u8> {}", "f", "rs", "(a: T) -> Vec<u8>"),
        (f"def f({', '.join(f'{name * 20}: int' for name in [*'abcdefghijklm'] * 4)}): ...", "f", "py", LONG),
    ],
)
def test_a_signature_is_what_is_behind_the_name(line, name, suffix, signature):
    assert read(line, name, suffix) == signature


def test_a_long_signature_loses_its_result_then_its_types_then_its_last_parameters():
    rest = f"(first: {'A' * 30}, second: {'B' * 30} = None, *, third: {'C' * 30}) -> {'D' * 30}"
    assert shortened(rest, 150) == rest.partition(" -> ")[0]
    assert shortened(rest, 60) == "(first, second=None, *, third)"
    assert shortened(rest, 25) == "(first, second=None, …)"


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("A [link](https://x.org/a_(b)) and ![image](x.png).", "A link and ."),
        ("[![badge](a.svg)](https://x.org) Text", "Text"),
        (":class:`~flask.Flask` and :doc:`/install` and `x <y>`_", "Flask and install and x"),
        ("``code`` and `more` and *stress* and __init__", "code and more and stress and __init__"),
        ("See {@link https://x.org docs} <b>now</b><!-- never -->", "See docs now"),
        ("Fixed. :issue:`12`", "Fixed. issue 12"),
        ("`~flask.Flask` and `text`:ref: and :paramref:`.engine.echo`", "Flask and text and engine.echo"),
        (":class:`~collections.abc.\nMapping` has one [1]_ and [#n]_.", "Mapping has one and ."),
    ],
)
def test_prose_loses_its_markup_and_keeps_its_words(text, words):
    assert told(text) == words


def test_the_first_sentence_ends_where_the_sentence_does():
    assert shown(first_sentence("Give it, e.g. to\nme. Or not.\n\n:param x: no", 200)) == "Give it, e.g. to me."
    assert shown(first_sentence("word " * 100, 20)).endswith("…")


def test_the_first_paragraph_may_begin_with_a_role_and_is_below_the_title():
    assert first_paragraph(":py:class:`Shop` sells.\n\n:param x: no") == ":py:class:`Shop` sells."
    assert first_paragraph("Shops\n~~~~~\n\nThey sell.") == "They sell."


def test_docs_that_begin_with_code_have_no_first_paragraph():
    assert first_paragraph('url = shop.URL("https://example.org")\n\nassert url.host') == ""


def test_a_document_is_called_by_its_first_heading_though_another_one_follows_at_once(tmp_path, space):
    files = {
        "docs/install.rst": "Installation\n============\n\n\nPython Version\n--------------\n\nUse the latest one.\n",
        "docs/guide.md": "# Guide\n\n## First steps\n\nWalk.\n",
        "docs/plain.md": "# Plain\n\nIt says so.\n\n## More\n\nMore.\n",
    }
    Bakery(tmp_path / "shop", files).ingest(space)
    titles = {page.plan.title for path, page in wiki(space).items() if path.startswith("documents/")}
    assert titles == {"Installation", "Guide", "Plain"}


SHOP = {
    "shop/__init__.py": "from .rules import RATE, Till\nfrom .passed import opened\n",
    "shop/passed.py": '"""Passes on."""\n\nfrom .rules import opened\n' + "\n" * 12,
    "shop/rules.py": (
        '"""Holds the rules."""\n\nfrom typing import overload\n\nRATE: int = 3\n\nopened = RATE > 2\n\n\n'
        "@overload\ndef price(of: int) -> int: ...\n\n\n@overload\ndef price(of: str) -> str: ...\n\n\n"
        'def price(of: int | str) -> int | str:\n    """Return what it costs."""\n    return of\n\n\n'
        'class Till:\n    """Holds coins."""\n\n    @property\n    def coins(self) -> int:\n'
        '        """How many there are."""\n        return 1\n\n    @coins.setter\n'
        "    def coins(self, value: int) -> None:\n        self.kept = value\n"
    ),
}


@pytest.fixture
def shop(tmp_path, space):
    Bakery(tmp_path / "shop", SHOP).ingest(space)
    return wiki(space)


def test_overloads_and_setters_are_not_listed_beside_what_they_are_of(shop):
    body = shop["modules/shop-rules.md"].body
    assert body.count("[`price`]") == 1
    assert "(of: int \\| str) -> int \\| str | Return what it costs. |" in body
    assert body.count("[`coins`]") == 1
    assert "[`coins`](source:shop/rules.py#L26-L29): int | How many there are. |" in body


def test_names_that_a_package_passes_on_lead_to_where_they_are_defined(shop):
    offers = shop["modules/shop.md"].body.partition("## Public API")[2]
    assert "[`RATE`](source:shop/rules.py#L5-L5)" in offers
    assert "[`opened`](source:shop/rules.py#L7-L7)" in offers
    assert "[`Till`](source:shop/rules.py#L" in offers


def test_the_plan_says_of_each_module_what_it_is_for(shop):
    purposes = {path: page.plan.purpose for path, page in shop.items()}
    assert purposes["modules/shop-rules.md"] == "Holds the rules."
    assert purposes["modules/shop.md"] == ""


@pytest.mark.parametrize(
    "text", ["# a", "- a", "1. a", "> a", "a | b", "[x]: y", "<b>", "==a==", "$x$", "{{ a }}", "~~a~~"]
)
def test_words_of_a_stored_text_are_no_markup(text):
    tokens = (
        MarkdownIt("commonmark", {"html": True}).enable(["table", "strikethrough"]).parse(paragraph_start(plain(text)))
    )
    assert [token.type for token in tokens] == ["paragraph_open", "inline", "paragraph_close"]
    assert {child.type for child in tokens[1].children} <= {"text", "text_special"}
    assert "".join(child.content for child in tokens[1].children) == text


def test_headings_in_code_are_no_headings():
    lines = ["", "# One", "", "```", "# not one", "```", "", "Two", "---", ""]
    assert [(one.level, one.name) for one in outline_document(lines, "README.md").headings] == [(1, "One"), (2, "Two")]


def test_headings_of_asciidoc_are_marked_or_underlined():
    lines = ["", "= image:a.svg[Logo] Book", "", "== Build", "", "----", "== no title", "----", "", "Used", "----", ""]
    lines += [".Fedora", "====", "x", "===="]
    found = [(one.level, one.name) for one in outline_document(lines, "README.asciidoc").headings]
    assert found == [(1, "Book"), (2, "Build"), (2, "Used")]


def test_headings_of_restructured_text_are_as_deep_as_their_rulers_come():
    lines = ["", "====", "Book", "====", "", "Part", "----", "", "Thing", "`````", "", "Other", "-----", "", "x::", ""]
    found = [(one.level, one.name) for one in outline_document(lines, "README.rst").headings]
    assert found == [(1, "Book"), (2, "Part"), (3, "Thing"), (2, "Other")]


def test_code_of_restructured_text_is_found_behind_its_directive_and_behind_two_colons():
    text = ".. code-block:: python\n   :linenos:\n\n   a = 1\n\nSo::\n\n    b = 2\n\nEnd."
    found = [(one.kind, one.text, one.language) for one in blocks_of(text, fences=False)]
    assert found == [
        ("code", "a = 1", "python"),
        ("paragraph", "So:", ""),
        ("code", "b = 2", ""),
        ("paragraph", "End.", ""),
    ]


def test_of_a_long_paragraph_only_what_may_be_shown_is_read():
    assert len(told("[x](((" * 30_000)) <= 4_000


def test_modules_of_other_languages_tell_what_they_define(tmp_path, space):
    Bakery(tmp_path / "shop", LANGUAGES).ingest(space)
    pages = {path: page.body for path, page in wiki(space).items()}
    compose = pages["modules/compose.md"]
    assert "Puts handlers together." in compose
    assert "(one: T, other?: T): Context | Puts two together. |" in compose
    assert "hidden" not in compose
    assert "[`src/context.ts`](page:modules/context.md)" in compose
    assert "What a handler gets." in pages["modules/context.md"]
    money = pages["modules/go-money.md"] if "modules/go-money.md" in pages else pages["modules/go.md"]
    assert "Package money counts." in money
    assert "(cents int) int | Round rounds up. |" in money
    assert "inner" not in money
    till = next(body for path, body in pages.items() if path.startswith("modules/till"))
    assert "(coins: u32) -> bool | Opens it. |" in till
    assert "shut" not in till
