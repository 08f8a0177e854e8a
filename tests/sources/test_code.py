import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from treering.core.evidence import Lines
from treering.extensions.code.parsing.languages import LANGUAGES, language_of
from treering.extensions.code.parsing.outline import (
    SMALL_TEXT,
    CodeOutline,
    OutlineProcess,
    OutlineStopped,
    Symbol,
    outline,
)
from treering.extensions.code.parsing.segments import segment_code
from treering.ports.adapter import SegmentDraft
from treering.sources.reading.bounded_process import expendable, is_expendable

PYTHON = '''#!/usr/bin/env python3
"""Reads ledgers."""

import os
from collections.abc import Iterator as It
from . import sibling

LIMIT = 3
lower = 4


class Ledger(Base):
    """Holds entries."""

    def open(self, path: str) -> None:
        """Open it.

        For good.
        """
        def local(): pass

    @property
    async def size(self) -> int:  # counted
        return 0

    def _hidden(self): ...


# Adds two numbers.
@cached
def add(a, b):
    return a + b
'''

JAVASCRIPT = """// Copyright 2020 Somebody

/* Draws charts. */

import {a} from './a.js';
const fs = require("fs");

/** Doubles a number. */
export function twice(x) { return 2 * x; }

export class Chart extends Base {
  /** Paint it. */
  draw(ctx) { return <div/>; }
  #secret() {}
}

const helper = async (x) => { const inner = () => 1; return inner; };
exports.shown = function (y) {};
Chart.prototype.wipe = function () {};
"""

TYPESCRIPT = """import type { A } from "pkg/a";

/** A shape. */
export interface Shape { area(scale: number): number; }
export type Name = string | number;
export enum Color { Red, Green }
export namespace Inner { export const deep = 1; export function run(): void {} }
export abstract class Base<T> {
  private x = 1;
  abstract go(t: T): void;
  handle = (e: Event): void => {};
}
declare function legacy(a: string): void;
export { legacy };
"""

TSX = """import React from "react";
// Says hello.
export const Hello = ({ name }: Props) => <p>Hi {name}</p>;
"""

GO = """// Package store keeps things.
package store

import (
	"fmt"
	str "strings"
)

const Limit = 3

// Repo holds files.
type Repo struct {
	root string
}

type Opener interface {
	Open(name string) error
}

// Get reads a file.
func (r *Repo) Get(name string) ([]byte, error) { return nil, nil }

func hidden() {}
"""

RUST = """//! Keeps things.

use std::fmt::{self, Display};

pub const LIMIT: usize = 3;

/// A repository.
#[derive(
    Debug,
)]
pub struct Repo<T> { root: T }

impl<T> Display for Repo<T> {
    /// Prints it.
    fn fmt(&self) -> fmt::Result { Ok(()) }
}

pub trait Open { fn open(&self); }
mod inner { pub fn run() {} }
macro_rules! say { () => {} }
pub enum Kind { A, B }
"""

JAVA = """package a.b;

import java.util.List;

/** Holds files. */
public class Repo {
    public static final int LIMIT = 3;
    private int count;

    /** Makes one. */
    public Repo(int n) {}

    @Override
    public String get(String name) throws Error { return name; }

    private void hidden() {}
}

interface Opener { void open(); }
"""

C = """#include <stdio.h>
#include "own.h"
#define LIMIT 3
#define MAX(a, b) ((a) > (b) ? (a) : (b))

/* A point. */
typedef struct point { int x; } point;

/* Finds a point. */
point *find(int x) { return 0; }
static int hidden(void) { return 1; }
int declared(int a);
"""

CPP = """#include <vector>
namespace geo {
// A shape.
template <typename T>
class Shape {
 public:
  virtual double area() const;
  T get() { return t; }
};
enum class Color { Red };
}
double geo::Shape::area() const { return 0; }
"""

CSHARP = """using System.Text;

namespace App {
    /// <summary>Holds files.</summary>
    public class Repo {
        public const int Limit = 3;
        public Repo(int n) {}
        [Obsolete]
        public string Get(string name) { return name; }
        private void Hidden() {}
    }
    public interface IOpen { void Open(); }
}
"""

RUBY = """require 'json'
require_relative "own"

# Holds files.
class Repo < Base
  LIMIT = 3

  # Reads one.
  def get(name)
    name
  end

  def self.build
  end
end

module Deep
  class Inner; end
end
"""

PHP = """<?php
namespace App;

use App\\Model\\User;
require_once 'boot.php';

/** Holds files. */
class Repo {
    /** Reads one. */
    public function get(string $name): string { return $name; }
    private function hidden() {}
}

function helper($a) { return $a; }
"""

BASH = """#!/bin/bash
# Builds the thing.

source ./lib.sh
LIMIT=3

# Says hello.
hello() {
  echo hello
}
function bye { echo bye; }
"""

LANGUAGE_SAMPLES = {
    "a.py": PYTHON,
    "a.jsx": JAVASCRIPT,
    "a.ts": TYPESCRIPT,
    "a.tsx": TSX,
    "a.go": GO,
    "a.rs": RUST,
    "A.java": JAVA,
    "a.c": C,
    "a.cc": CPP,
    "A.cs": CSHARP,
    "a.rb": RUBY,
    "a.php": PHP,
    "a.sh": BASH,
}

KINDS = {
    "a.py": "constant LIMIT, class Ledger, method Ledger.open, method Ledger.size, method Ledger._hidden, function add",
    "a.jsx": "constant fs, function twice, class Chart, method Chart.draw, method Chart.#secret, function helper, "
    "function shown, function Chart.wipe",
    "a.ts": "interface Shape, method Shape.area, type Name, enum Color, namespace Inner, function Inner.run, "
    "class Base, method Base.go, method Base.handle, function legacy",
    "a.tsx": "function Hello",
    "a.go": "constant Limit, struct Repo, interface Opener, method Opener.Open, method Repo.Get, function hidden",
    "a.rs": "constant LIMIT, struct Repo, impl Repo, method Repo::fmt, trait Open, method Open::open, module inner, "
    "function inner::run, macro say, enum Kind",
    "A.java": "class Repo, constant Repo.LIMIT, method Repo.Repo, method Repo.get, method Repo.hidden, "
    "interface Opener, method Opener.open",
    "a.c": "constant LIMIT, macro MAX, struct point, function find, function hidden, function declared",
    "a.cc": "namespace geo, class geo::Shape, method geo::Shape::area, method geo::Shape::get, enum geo::Color, "
    "function geo::Shape::area",
    "A.cs": "namespace App, class App.Repo, constant App.Repo.Limit, method App.Repo.Repo, method App.Repo.Get, "
    "method App.Repo.Hidden, interface App.IOpen, method App.IOpen.Open",
    "a.rb": "class Repo, constant Repo::LIMIT, method Repo::get, method Repo::build, module Deep, class Deep::Inner",
    "a.php": "class Repo, method Repo::get, method Repo::hidden, function helper",
    "a.sh": "constant LIMIT, function hello, function bye",
}

IMPORTS = {
    "a.py": ("os", "collections.abc", "."),
    "a.jsx": ("./a.js", "fs"),
    "a.ts": ("pkg/a",),
    "a.tsx": ("react",),
    "a.go": ("fmt", "strings"),
    "a.rs": ("std::fmt::{self, Display}",),
    "A.java": ("java.util.List",),
    "a.c": ("stdio.h", "own.h"),
    "a.cc": ("vector",),
    "A.cs": ("System.Text",),
    "a.rb": ("json", "own"),
    "a.php": ("App\\Model\\User", "boot.php"),
    "a.sh": ("./lib.sh",),
}

DOCS = {
    "a.py": {"Ledger": "Holds entries.", "Ledger.open": "Open it.\n\nFor good.", "add": "Adds two numbers."},
    "a.jsx": {"twice": "Doubles a number.", "Chart.draw": "Paint it.", "helper": ""},
    "a.ts": {"Shape": "A shape.", "Name": ""},
    "a.tsx": {"Hello": "Says hello."},
    "a.go": {"Repo": "Repo holds files.", "Repo.Get": "Get reads a file.", "hidden": ""},
    "a.rs": {"Repo": "A repository.", "Repo::fmt": "Prints it."},
    "A.java": {"Repo": "Holds files.", "Repo.Repo": "Makes one.", "Repo.get": ""},
    "a.c": {"point": "A point.", "find": "Finds a point.", "hidden": ""},
    "a.cc": {"geo::Shape": "A shape."},
    "A.cs": {"App.Repo": "<summary>Holds files.</summary>"},
    "a.rb": {"Repo": "Holds files.", "Repo::get": "Reads one."},
    "a.php": {"Repo": "Holds files.", "Repo::get": "Reads one."},
    "a.sh": {"hello": "Says hello.", "bye": ""},
}

PUBLIC = {
    "a.py": "LIMIT Ledger Ledger.open Ledger.size add",
    "a.jsx": "twice Chart Chart.draw shown",
    "a.ts": "Shape Shape.area Name Color Inner Inner.run Base Base.go Base.handle legacy",
    "a.tsx": "Hello",
    "a.go": "Limit Repo Opener Opener.Open Repo.Get",
    "a.rs": "LIMIT Repo Open Open::open Kind",
    "A.java": "Repo Repo.LIMIT Repo.Repo Repo.get Opener Opener.open",
    "a.c": "LIMIT MAX point find declared",
    "A.cs": "App App.Repo App.Repo.Limit App.Repo.Repo App.Repo.Get App.IOpen App.IOpen.Open",
    "a.php": "Repo Repo::get helper",
}

MODULE_DOCS = {
    "a.py": "Reads ledgers.",
    "a.jsx": "Draws charts.",
    "a.go": "Package store keeps things.",
    "a.rs": "Keeps things.",
    "a.sh": "Builds the thing.",
    "a.c": "",
}


def read(path: str, text: str) -> CodeOutline:
    found = outline(path, text)
    assert found is not None
    return found


def symbol(found: CodeOutline, qualified: str) -> Symbol:
    return next(symbol for symbol in found.symbols if symbol.qualified == qualified)


def place(draft: SegmentDraft) -> Lines:
    assert isinstance(draft.locator, Lines)
    return draft.locator


def cut(path: str, text: str, max_chars: int = 4_000) -> list[SegmentDraft]:
    return segment_code(path, text, outline(path, text), commit=None, max_chars=max_chars)


def assert_every_line_once(text: str, drafts: list[SegmentDraft]) -> None:
    lines = [line.removesuffix("\r") for line in text.split("\n")]
    places = [place(draft) for draft in drafts]
    assert all(before.end < after.start for before, after in pairwise(places))
    covered = {line for at in places for line in range(at.start, at.end + 1)}
    assert all(number in covered for number, line in enumerate(lines, 1) if line.strip())
    for draft, at in zip(drafts, places, strict=True):
        assert draft.text == "\n".join(lines[at.start - 1 : at.end])
        assert draft.text.strip()


@pytest.mark.parametrize(("path", "expected"), KINDS.items())
def test_each_language_gives_its_definitions_in_order(path, expected):
    found = read(path, LANGUAGE_SAMPLES[path])
    assert ", ".join(f"{symbol.kind} {symbol.qualified}" for symbol in found.symbols) == expected


@pytest.mark.parametrize(("path", "expected"), IMPORTS.items())
def test_each_language_gives_its_imports(path, expected):
    assert read(path, LANGUAGE_SAMPLES[path]).imports == expected


@pytest.mark.parametrize(("path", "expected"), DOCS.items())
def test_docs_are_read_without_their_markers(path, expected):
    found = read(path, LANGUAGE_SAMPLES[path])
    assert {name: symbol(found, name).doc for name in expected} == expected


@pytest.mark.parametrize(("path", "expected"), PUBLIC.items())
def test_public_names_follow_each_languages_own_rule(path, expected):
    assert " ".join(read(path, LANGUAGE_SAMPLES[path]).public) == expected


@pytest.mark.parametrize(("path", "expected"), MODULE_DOCS.items())
def test_the_files_own_comment_is_its_doc_past_any_licence(path, expected):
    assert read(path, LANGUAGE_SAMPLES[path]).module_doc == expected


@pytest.mark.parametrize(
    ("path", "name", "signature"),
    [
        ("a.py", "Ledger.open", "def open(self, path: str) -> None"),
        ("a.py", "Ledger.size", "async def size(self) -> int"),
        ("a.py", "Ledger", "class Ledger(Base)"),
        ("a.jsx", "twice", "export function twice(x)"),
        ("a.jsx", "helper", "const helper = async (x)"),
        ("a.ts", "Base.go", "abstract go(t: T): void"),
        ("a.go", "Repo", "type Repo struct"),
        ("a.go", "Repo.Get", "func (r *Repo) Get(name string) ([]byte, error)"),
        ("a.rs", "Repo", "pub struct Repo<T>"),
        ("a.rs", "Repo::fmt", "fn fmt(&self) -> fmt::Result"),
        ("a.c", "find", "point *find(int x)"),
        ("a.sh", "hello", "hello()"),
    ],
)
def test_a_signature_ends_where_the_body_begins(path, name, signature):
    found = read(path, LANGUAGE_SAMPLES[path])
    assert signature in [symbol.signature for symbol in found.symbols if symbol.qualified == name]


def test_a_segment_reports_which_lines_its_definitions_fill():
    text = "import os\n\n# Opens.\ndef one():\n    pass\n\n\nclass Two:\n    def three(self):\n        pass\n"
    (draft,) = cut("x.py", text)
    lines = draft.text.split("\n")
    told = {one.name: lines[one.first - 1 : one.last] for one in draft.definitions}
    assert told == {
        "one": ["# Opens.", "def one():", "    pass"],
        "Two.three": ["    def three(self):", "        pass"],
    }


def test_a_segment_that_is_one_definition_needs_not_tell_so():
    (draft,) = cut("x.py", "def one():\n    pass\n")
    assert draft.definitions == ()


def test_a_symbol_covers_its_comment_and_decorators():
    add = symbol(read("a.py", PYTHON), "add")
    lines = PYTHON.split("\n")[add.start - 1 : add.end]
    assert lines[0] == "# Adds two numbers."
    assert lines[-1] == "    return a + b"
    repo = symbol(read("a.rs", RUST), "Repo")
    assert RUST.split("\n")[repo.start - 1] == "/// A repository."


def test_a_members_parent_is_named():
    assert symbol(read("a.go", GO), "Repo.Get").parent == "Repo"
    assert symbol(read("a.cc", CPP), "geo::Shape").parent == "geo"
    assert symbol(read("a.py", PYTHON), "add").parent is None


def test_a_list_of_exported_names_settles_what_a_python_module_shows():
    found = read(
        "a.py", '__all__ = ["one", "Two"]\ndef one(): ...\ndef other(): ...\nclass Two:\n  def go(self): ...\n'
    )
    assert found.public == ("one", "Two", "Two.go")


@pytest.mark.parametrize(
    ("path", "text", "expected"),
    [
        ("bin/tool", "#!/usr/bin/env python3.11\n", "python"),
        ("bin/tool", "#!/bin/sh -e\n", "bash"),
        ("bin/tool", "#!/usr/bin/env -S node --x\n", "javascript"),
        ("bin/tool", "text", None),
        ("a.h", "int f(void);\n", "c"),
        ("a.h", "namespace a {\n}\n", "cpp"),
        ("A.PY", "", "python"),
        ("a.unknown", "#!/bin/sh\n", None),
    ],
)
def test_a_language_is_known_by_extension_or_first_line(path, text, expected):
    found = language_of(path, text)
    assert (found.name if found else None) == expected


def test_every_language_has_a_sample_here():
    assert {read(path, text).language for path, text in LANGUAGE_SAMPLES.items()} == set(LANGUAGES)


@pytest.mark.parametrize("path", LANGUAGE_SAMPLES)
def test_an_empty_file_has_an_empty_outline_and_no_segments(path):
    assert read(path, "").symbols == ()
    assert cut(path, "") == []
    assert cut(path, "\n \n\n") == []


@pytest.mark.parametrize("path", LANGUAGE_SAMPLES)
def test_carriage_returns_change_nothing(path):
    text = LANGUAGE_SAMPLES[path]
    windows = text.replace("\n", "\r\n")
    assert read(path, windows) == read(path, text)
    assert cut(path, windows) == cut(path, text)


def test_names_of_any_script_are_read():
    text = 'ß = "→"\nclass Größe:\n    """Maß 長さ."""\n\n    def länge(self, 値): ...\n'
    found = read("a.py", text)
    assert [symbol.qualified for symbol in found.symbols] == ["Größe", "Größe.länge"]
    assert symbol(found, "Größe.länge").signature == "def länge(self, 値)"
    assert symbol(found, "Größe").doc == "Maß 長さ."


def test_broken_code_keeps_what_can_be_recognised():
    found = read("a.py", "def good(a):\n    return a\n\ndef broken(:\n    pass\n\nclass Fine:\n    def go(self): ...\n")
    assert {"good", "Fine"} <= {symbol.qualified for symbol in found.symbols}


def test_lone_surrogates_and_zero_bytes_are_survived():
    assert read("a.py", "x = '\udcff'\0\ndef go(): ...\n").language == "python"


@pytest.mark.parametrize("path", ["a.py", "a.js", "a.ts", "a.cpp", "a.rs", "a.cs"])
def test_deep_nesting_overflows_nothing(path):
    for opener in ("(\n", "{\n", "[\n", "namespace a {\n", "class A {\n"):
        text = opener * 3_000
        assert_every_line_once(text, cut(path, text))


def test_nested_classes_are_named_to_a_bounded_depth():
    text = "".join(f"{' ' * depth}class A{depth}:\n" for depth in range(200)) + " " * 200 + "pass\n"
    assert len(read("a.py", text).symbols) == 5
    assert_every_line_once(text, cut("a.py", text))


def test_noise_ends_without_an_outline():
    noise = "".join("(){}[]\"'`<>=;:,\nabc#/*"[(i * i * 7 + i // 3) % 22] for i in range(20_000))
    for path in ("a.tsx", "a.js", "a.rs"):
        assert_every_line_once(noise, cut(path, noise))


def test_a_minified_file_is_kept_whole_as_data():
    text = "var a=1;" * 1_000 + "\nvar b\n"
    found = outline("a.min.js", text)
    drafts = segment_code("a.min.js", text, found, commit=None, max_chars=2_000)
    assert found is None
    assert drafts[0].role == "data"
    assert len(drafts[0].gist or "") < 100
    assert_every_line_once(text, drafts)


def test_a_file_of_no_known_language_is_cut_as_plain_lines():
    text = "\n".join(f"line {number}" for number in range(400))
    found = outline("a.unknown", text)
    drafts = segment_code("a.unknown", text, found, commit="c0ffee", max_chars=1_000)
    assert found is None
    assert {draft.role for draft in drafts} == {"code"}
    assert {place(draft).commit for draft in drafts} == {"c0ffee"}
    assert max(len(draft.text) for draft in drafts) <= 1_000
    assert_every_line_once(text, drafts)


def body(lines: int) -> str:
    return "".join(f"        value_{number} = compute(value_{number - 1})\n" for number in range(1, lines + 1))


LARGE_CLASS = (
    '"""Module words."""\n\nfrom pkg.somewhere.else import one, two, three, four\n'
    "from pkg.another.place.far.away import five, six, seven, eight, nine\n\n\n"
    'class Store(Base):\n    """Keeps all."""\n\n    limit = 3\n\n'
    f'    def put(self, key):\n        """Put one."""\n{body(20)}\n'
    f"    def _drop(self, fooBar):\n{body(20)}\n"
    f"    def huge(self):\n{body(200)}"
)


def test_a_large_class_gives_a_header_a_head_and_its_methods():
    drafts = cut("pkg/store.py", LARGE_CLASS)
    headings = [draft.heading for draft in drafts]
    assert headings[:4] == ["store.py", "Store", "Store.put", "Store._drop"]
    assert headings[4:] == ["Store.huge (part 1)", "Store.huge (part 2)"]
    assert [place(draft).heading for draft in drafts] == headings
    assert [draft.role for draft in drafts[:5]] == ["symbol", "symbol", "symbol", "code", "symbol"]


def test_what_is_embedded_is_short_and_says_where_what_and_why():
    gists = {draft.heading: draft.gist or "" for draft in cut("pkg/store.py", LARGE_CLASS)}
    assert gists["store.py"] == "pkg/store.py\nModule words."
    assert gists["Store"] == "pkg/store.py\nclass Store(Base)\nKeeps all.\nput, _drop, huge"
    assert gists["Store.put"] == "pkg/store.py\nStore.put\ndef put(self, key)\nPut one."
    assert "drop foo bar value compute" in gists["Store._drop"]
    assert gists["Store.huge (part 2)"].startswith("pkg/store.py\nStore.huge (part 2)\n")
    assert max(map(len, gists.values())) < 1_200


def test_a_long_doc_is_cut_in_what_is_embedded():
    text = f'def go():\n    """{"word " * 1_000}"""\n'
    assert len(cut("a.py", text, 10_000)[0].gist or "") < 700


def test_small_definitions_share_a_segment():
    text = "".join(f"def f{number}():\n    return {number}\n\n" for number in range(100))
    drafts = cut("a.py", text)
    assert 2 <= len(drafts) <= 10
    assert drafts[0].heading.startswith("f0, f1, f2")
    assert drafts[0].heading.endswith("…")
    assert_every_line_once(text, drafts)


def test_overloads_share_the_segment_of_their_implementation():
    parameters = "".join(f"        option_{number}: int = {number},\n" for number in range(20))
    stub = f"    @overload\n    def run(\n        self,\n{parameters}    ) -> Result: ...\n\n"
    methods = f"    def run(self, job):\n{body(12)}\n    def stop(self):\n{body(12)}"
    drafts = cut("w.py", f"class Worker:\n{stub}{stub}{methods}")
    assert [draft.heading for draft in drafts] == ["Worker, Worker.run", "Worker.stop"]


def test_parts_begin_at_statements_of_the_outer_level():
    steps = "".join(f"    if step_{n}:\n        run({n})\n        stop({n})\n\n" for n in range(100))
    drafts = cut("a.py", f"def go():\n{steps}", 1_000)
    assert len(drafts) > 2
    assert all(draft.text.startswith("    if step_") for draft in drafts[1:])


def test_two_definitions_on_one_line_share_it():
    text = "function a() {\n} function b() {\n}\nfunction c() {}\n"
    assert_every_line_once(text, cut("a.js", text))


@pytest.mark.parametrize("path", LANGUAGE_SAMPLES)
@pytest.mark.parametrize("max_chars", [60, 200, 4_000])
def test_every_line_of_a_sample_is_in_exactly_one_segment(path, max_chars):
    text = LANGUAGE_SAMPLES[path]
    assert_every_line_once(text, cut(path, text, max_chars))


OUTLINES = OutlineProcess()


def outlined(path, text):
    """Parse a text as `ingest` does: in a process of its own, since some texts end a parser, and all of its process."""
    found = OUTLINES.outline(path, text)
    return None if isinstance(found, OutlineStopped) else found


FRAGMENTS = [line for text in LANGUAGE_SAMPLES.values() for line in text.split("\n")]


@settings(max_examples=120, deadline=None)
@given(
    path=st.sampled_from(sorted(LANGUAGE_SAMPLES)),
    lines=st.lists(st.one_of(st.sampled_from(FRAGMENTS), st.text(max_size=30)), max_size=60),
    end=st.sampled_from(["\n", "\r\n"]),
    max_chars=st.integers(20, 3_000),
)
def test_any_text_is_covered_once_and_always_the_same_way(path, lines, end, max_chars):
    text = end.join(lines)
    found = outlined(path, text)
    drafts = segment_code(path, text, found, commit=None, max_chars=max_chars)
    assert_every_line_once(text, drafts)
    assert all(len(draft.text) <= max_chars or "\n" not in draft.text for draft in drafts)
    assert drafts == segment_code(path, text, outlined(path, text), commit=None, max_chars=max_chars)


def test_a_large_file_is_outlined_in_a_process_that_may_end():
    text = "def go():\n    pass\n\n\n" * 1_000
    assert len(text) > SMALL_TEXT
    outlines = OutlineProcess()
    with expendable(True):
        found = outlines.outline("a.py", text)
        assert (outlines._process._child is None) is is_expendable()
    with expendable(False):
        assert outlines.outline("a.py", text) == found
    assert outlines._process._child is not None


def test_a_shell_script_is_outlined_in_a_process_that_may_end():
    outlines = OutlineProcess()
    with expendable(False):
        found = outlines.outline("a.sh", LANGUAGE_SAMPLES["a.sh"])
    assert found == outline("a.sh", LANGUAGE_SAMPLES["a.sh"])
    assert outlines._process._child is not None


def test_threads_may_read_files_at_the_same_time():
    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(read, [*LANGUAGE_SAMPLES] * 5, [*LANGUAGE_SAMPLES.values()] * 5))
    assert found == [read(path, text) for path, text in LANGUAGE_SAMPLES.items()] * 5


def uses(path: str, text: str) -> list[str]:
    return [use for _, use in read(path, text).uses]


def test_a_name_that_is_defined_assigned_or_passed_by_keyword_is_not_used_there() -> None:
    text = (
        "from a import LIMIT, run\n\nTOP = 3\nNAMED: int = 4\n\n\ndef go(run=1):\n    call(LIMIT=3)\n    return TOP\n"
    )
    assert uses("b.py", text) == ["i a#LIMIT", "i a#run", "u #TOP"]


def test_a_member_is_found_by_its_class_and_of_an_unknown_object_only_by_a_telling_name() -> None:
    text = (
        "class Till:\n    def open_drawer(self):\n        self.count_coins()\n        self.get()\n"
        "        other.count_notes()\n        other.get()\n\n    def count_coins(self): ...\n"
    )
    assert uses("a.py", text) == ["c #Till.count_coins", "c ?#.count_notes"]


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ("P.java", "import static a.Q.one;\n\nclass P {\n  void one() {}\n  void two() {\n    one();\n  }\n}\n"),
        ("P.java", "class P {\n  void one() {}\n  class Q {\n    void two() {\n      one();\n    }\n  }\n}\n"),
        ("P.cs", "class P {\n  void one() {}\n  void two() {\n    one();\n  }\n}\n"),
        ("P.cpp", "void one() {}\n\nclass P {\n  void one() {}\n  void two() {\n    one();\n  }\n};\n"),
        ("P.cpp", "class P {\n  void one();\n  void two();\n};\n\nvoid P::two() {\n  one();\n}\n"),
    ],
)  # fmt: skip
def test_a_call_without_an_object_in_a_class_is_one_of_its_own_method(path: str, text: str) -> None:
    assert uses(path, text)[-1] == "c #P.one"


@pytest.mark.parametrize(
    ("path", "text", "expected"),
    [
        (
            "P.java",
            "import static a.Q.one;\nclass R {\n  void one() {}\n}\nclass P {\n  void two() {\n    one();\n  }\n}\n",
            "c a.Q#one",
        ),
        ("P.java", "class P {\n  P() {}\n  P two() {\n    return new P();\n  }\n}\n", "c #P"),
        ("P.cpp", "void one() {}\n\nclass R {\n  void one() {}\n};\n\nvoid two() {\n  one();\n}\n", "c #one"),
        ("P.php", "<?php\nclass P {\n  function one() {}\n  function two() {\n    one();\n  }\n}\n", "c ?#one"),
    ],
)  # fmt: skip
def test_a_call_without_an_object_is_not_one_of_another_class(path: str, text: str, expected: str) -> None:
    assert [use for use in uses(path, text) if use.startswith("c")] == [expected]


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("func (e *Repo) run() { e.open() }", ["c #Repo.open"]),
        ("func (this *Repo) run() { this.open() }", ["c #Repo.open"]),
        ("func run(n int, a, e *Repo) { e.open() }", ["c #Repo.open"]),
        ("func run(f func(n int) error, e Repo) { e.open() }", ["c #Repo.open"]),
        ("func run(e *y.Repo) { e.open() }", ["c x.org/y#Repo.open"]),
        ("func run() (n int, e *Repo, err error) { e.open() }", ["c #Repo.open"]),
        ("func (t *Till) run(n int) (e *Repo) { e.open() }", ["c #Repo.open"]),
        ("func run() (e *Repo) { return func() (e *Till) { return e.open() } }", []),
        ("func run() (*Repo, error) { e.open() }", []),
        ("func run(e *testing.T) { e.OpenAll() }", []),
        ("func run() {\n\te := &Repo{}\n\te.open()\n}", ["c #Repo.open"]),
        ("func run() {\n\te, err := NewRepo(f(1))\n\te.open()\n}", ["c #f", "c ?#NewRepo", "c #Repo.open"]),
        ("func run() {\n\te := NewRepo().Next()\n\te.open()\n}", ["c ?#NewRepo"]),
        ("func run() {\n\tvar e *Repo\n\te.open()\n}", ["c #Repo.open"]),
        ("func run(e []*Repo, s string) {\n\te.open()\n\ts.open()\n}", []),
        ("func run(e *Repo) {\n\tfor _, e := range all {\n\t\te.open()\n\t\te.openAll()\n\t}\n}", ["c ?#.openAll"]),
        ("func one(e *Repo) {}\n\nfunc run(e *Till) { e.open() }", ["c #Till.open"]),
    ],
)  # fmt: skip
def test_a_method_of_a_go_variable_is_found_by_the_stated_type(body: str, expected: list[str]) -> None:
    text = f'package a\n\nimport (\n\t"testing"\n\n\t"x.org/y"\n)\n\n{body}\n'
    assert [use for use in uses("a.go", text) if use.startswith("c")] == expected


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("void run(@Valid Pet pet, int n) { pet.open(); }", ["c a.b.Pet#Pet.open"]),
        ("void run() { Owner pet = find(); pet.open(); }", ["c x.y.Owner#Owner.open"]),
        ("void run() { final var pet = new Pet(); pet.open(); }", ["c ?#Pet", "c a.b.Pet#Pet.open"]),
        ("void run() { for (Pet pet : all) { pet.open(); } }", ["c a.b.Pet#Pet.open"]),
        ("void run(Pet pet) { pet.openAll(); }", ["c ?#.openAll", "c a.b.Pet#Pet.openAll"]),
        ("void run(P pet) { pet.open(); }", ["c #P.open"]),
        ("void run(List<Pet> pet) { pet.open(); }", []),
        ("void run(Pet[] pet) { pet.open(); }", []),
        ("Pet pet;\n  void run() { all.each(pet -> pet.open()); }", []),
        ("void run() { { Pet pet = a; } { Owner pet = b; pet.open(); } }", []),
        ("void one(Pet pet) {}\n  void run() { pet.open(); }", []),
        ("private final Pet pet;\n  void run() { pet.open(); }", ["c a.b.Pet#Pet.open"]),
        ("Pet pet;\n  void run(Owner pet) { pet.open(); }", ["c x.y.Owner#Owner.open"]),
        ("Pet pet;\n  void run(Owner pet) { this.pet.open(); }", ["c a.b.Pet#Pet.open"]),
        ("Pet pet;\n  void run() { var pet = find(); pet.open(); }", []),
    ],
)  # fmt: skip
def test_a_method_of_a_java_variable_is_found_by_the_stated_type(body: str, expected: list[str]) -> None:
    text = f"package a.b;\n\nimport java.util.List;\nimport x.y.Owner;\n\nclass P {{\n  {body}\n}}\n"
    assert [use for use in uses("P.java", text) if use.startswith("c")] == expected


def test_what_an_alias_represents_is_used_by_its_own_name() -> None:
    text = "import a.b\nimport a.c as see\nfrom .d import run as go\n\ngo()\nsee.all()\na.b.end()\n"
    assert uses("x/y.py", text) == ["i a.b#", "i a.c#", "i .d#run", "c .d#run", "c a.c#all", "c a.b#end"]


@pytest.mark.parametrize(
    ("method", "expected"),
    [
        ("func (e *Repo) Root() *Repo { return e }", ["c #Repo.Root", "c #Repo.open"]),
        ("func (*Repo) Root(n ...func(int)) Till { return t }", ["c #Repo.Root", "c #Till.open"]),
        ("func (e *Repo) Root() *y.Till { return e }", ["c #Repo.Root", "c x.org/y#Till.open"]),
        ("func (e *Repo) Root() []*Repo { return e }", ["c #Repo.Root"]),
        ("func (e *Repo) Root() error { return e }", ["c #Repo.Root"]),
        ("func (e *Till) Root() *Till { return e }", ["c #Repo.Root"]),
    ],
)
def test_a_method_of_the_result_of_a_go_method_is_found_by_its_type(method: str, expected: list[str]) -> None:
    text = f'package a\n\nimport "x.org/y"\n\n{method}\n\nfunc run(e *Repo) {{\n\te.Root().open()\n}}\n'
    assert [use for use in uses("a.go", text) if use.startswith("c")] == expected


@pytest.mark.parametrize(
    ("path", "text", "expected"),
    [
        ("a.ts", "import type { A as B } from './a'\nlet x: B\n", ["i ./a#", "i ./a#A", "u ./a#A"]),
        ("a.js", "const { run: go } = require('./a')\ngo()\n", ["i ./a#", "i ./a#run", "c ./a#run"]),
        ("a.js", "import * as all from './a'\nall.go()\n", ["i ./a#", "c ./a#go"]),
        ("a.js", "const a = await import('./a')\n", ["i ./a#"]),
        ("a.go", 'package a\n\nimport m "x.org/y"\n\nfunc F() { m.Go() }\n', ["i x.org/y#", "c x.org/y#Go"]),
        ("a.rs", "use crate::a::{self, B};\nfn f() { B::n() }\n", ["i crate::a#", "i crate::a#B", "c crate::a#B.n"]),
        ("a.rs", "fn f(a: Option<Repo>) -> Vec<String> {}\n", ["u ?#Repo"]),
        ("a.rs", "use crate::a::Option;\nfn f(a: Option) {}\n", ["i crate::a#Option", "u crate::a#Option"]),
        ("a.rs", "mod b;\nfn f() { crate::c::d(); }\n", ["i self::b#", "c crate::c#d"]),
        ("A.java", "import static a.B.*;\nimport a.C;\nclass A { int x=C.g(); }", ["i a.B#*", "i a.C#C", "c a.C#C.g"]),
        ("a.php", "<?php\nuse A\\{B, C as D};\nnew D();\n", ["i A\\B#B", "i A\\C#C", "c A\\C#C"]),
        ("a.rb", "require_relative 'b'\nCart.new(1)\n", ["i ./b#", "c ?#Cart.new"]),
        ("a.c", '#include "b.h"\nint f(void) { return list_push(1); }\n', ["i b.h#", "c ?#list_push"]),
        ("a.sh", 'source "$HERE/lib.sh"\n', ["i ./lib.sh#"]),
    ],
)  # fmt: skip
def test_each_language_reports_what_it_uses_of_which_module(path: str, text: str, expected: list[str]) -> None:
    assert uses(path, text) == expected


@settings(max_examples=50)
@given(st.text(max_size=300), st.sampled_from(sorted(LANGUAGE_SAMPLES)))
def test_uses_of_any_text_are_read_without_an_error(text: str, path: str) -> None:
    found = outlined(path, LANGUAGE_SAMPLES[path] + text)
    assert found is None or all(line >= 1 and use[1:2] == " " for line, use in found.uses)


def test_a_process_that_outlines_files_starts_without_what_objects_are_made_of() -> None:
    script = "import sys, treering.extensions.code.parsing.outline; sys.exit('pydantic' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", script], check=False).returncode == 0


@pytest.mark.parametrize(
    ("text", "doc"),
    [
        ("/** Draws. */\n\nconst a = 1\n", "Draws."),
        ("/** The first number. */\nvar a = 1\n", ""),
        ("/*!\n * MIT licensed\n */\n\n'use strict'\n\n/** Dependencies. */\n\nvar a = require('a')\n", ""),
    ],
)
def test_a_comment_on_a_variable_or_below_the_preamble_is_not_about_the_file(text, doc):
    assert outline("a.js", text).module_doc == doc


def test_a_comment_may_contain_its_own_opening():
    text = "/**\n * Matches `/lawn/*` only.\n */\nexport function rake() {}\n"
    assert outline("a.ts", text).symbols[0].doc == "Matches `/lawn/*` only."


def test_a_signature_contains_no_comments():
    text = "def f(  # noqa: PLR0913\n    a,\n):\n    # It's simple.\n    pass\n"
    assert outline("a.py", text).symbols[0].signature == "def f( a, )"


def test_members_of_csharp_are_public_if_marked():
    text = "public class A { void Hidden() {} public void Shown() {} }\npublic interface B { void Shown(); }\n"
    assert outline("a.cs", text).public == ("A", "A.Shown", "B", "B.Shown")
