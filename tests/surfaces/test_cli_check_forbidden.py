"""`treering check` reports added code with a name that a recorded rule forbids."""

import pytest

from treering.verbs.forbidden_code import forbidden_by

RULES = """\
# Rules

- Never call `print()` in src.
- Use httpx instead of requests in tests.
- Never use `unsafe` without a comment.
"""
FILES = {
    "AGENTS.md": RULES,
    "src/app.py": "def start():\n    return 1\n",
    "src/old.py": "def report():\n    print(1)\n",
    "tests/test_app.py": "def test_start():\n    assert True\n",
}


@pytest.fixture
def shop(stage):
    """A repository with rules."""
    stage.commit(FILES)
    return stage


def broken(shop):
    found = shop.run("check", "--json", "--base", "HEAD~1").data["findings"]
    return [(one["path"], one["line"], one["title"]) for one in found if one["rule"] == "broken-rule"]


def test_check_reports_added_lines_that_a_rule_forbids(shop):
    shop.commit(
        {
            "src/app.py": "def start():\n    print(2)\n    print(3)\n    return 1\n",
            "tests/test_app.py": "import requests\n\n\ndef test_start():\n    print(requests)\n",
        }
    )
    assert broken(shop) == [
        ("src/app.py", 2, "Never call `print()` in src."),
        ("src/app.py", 3, "Never call `print()` in src."),
        ("tests/test_app.py", 1, "Use httpx instead of requests in tests."),
    ]
    out = shop.run("check", "--base", "HEAD~1").out
    assert "src/app.py:2: check: broken-rule: Never call `print()` in src.\n" in out
    assert "The rule forbids 'print()', but the change adds 'print(2)'.\n    $EDITOR +1 AGENTS.md" in out
    assert "governs: Never call" not in out


def test_check_ignores_moved_lines_comments_and_other_places(shop):
    shop.commit(
        {
            "src/old.py": "",
            "src/new.py": "def report():\n    print(1)\n",
            "src/app.py": "import requests\n\ndef start():\n    # no print() here\n    console.print(2)\n",
            "docs/usage.md": "Call `print()`.\n",
        }
    )
    assert broken(shop) == []


def test_rule_for_a_named_place_governs_no_other_file(shop):
    shop.commit({"src/app.py": "import requests\n"})
    out = shop.run("check", "--base", "HEAD~1").out
    assert "governs" not in out


def test_broken_rule_of_a_space_is_shown_not_fixed(shop):
    shop.run("init")
    shop.run("rule", "Never use os.system in src")
    shop.commit({"src/app.py": "os.system('a')\n"})
    assert (
        " See: `treering show 'Never use os.system in src'`"
        in shop.run("check", "--base", "HEAD~1", "--format", "markdown").out
    )


def test_check_lists_three_breaches_of_a_rule_in_a_file(shop):
    moved = {"src/old.py": "", "src/new.py": "print(1)\n"}
    shop.commit(moved | {"src/app.py": "".join(f"print({at})\n" for at in range(2, 7))})
    assert [place[:2] for place in broken(shop)] == [("src/app.py", 1), ("src/app.py", 2), ("src/app.py", 3)]
    assert "adds 'print(4)'. This file has 2 more lines with it.\n" in shop.run("check", "--base", "HEAD~1").out


def test_broken_rule_can_fail_the_check(shop):
    shop.commit({"src/app.py": "print(2)\n"})
    assert shop.run("check", "--base", "HEAD~1").code == 0
    assert shop.run("check", "--base", "HEAD~1", "--fail-on", "broken-rule").code == 1


@pytest.mark.parametrize(
    ("rule", "line", "path"),
    [
        ("Never import trio directly; use anyio.", "import trio", "src/a.py"),
        ("In tests, never use `time.sleep`.", "    time.sleep(1)", "tests/test_a.py"),
        ("Code in celery/worker must not import Django.", "from django.conf import settings", "celery/worker/a.py"),
        ("Use `monkeypatch` fixture over `unittest.mock`", "from unittest import mock", "tests/test_a.py"),
        ("Use `tmp_path` instead of Python's `tempfile`", "import os, tempfile", "tests/test_a.py"),
        ("From now on use pathlib instead of os.path.", "    path = os.path.join(a, b)", "src/a.py"),
        ("Never use unwrap() in src", "    let a = b.take().unwrap();", "src/a.rs"),
        ("Don't use `console.log`", "console.log(a)", "web/a.ts"),
        ("Don't use `console.log`", "b('http://c'); console.log(a) /* d */", "web/a.ts"),
        ("fmt.Println is forbidden", "\tfmt.Println(1)", "recovery.go"),
        ("No fmt.Println in library code", "\tfmt.Println(1)", "recovery.go"),
        ("Never use fmt.Println in *.go", "\tfmt.Println(1)", "render/json.go"),
        ("Never use fmt.Println outside of tests", "\tfmt.Println(1)", "recovery.go"),
        ("The use of eval is not allowed in src", "eval(a)", "src/a.py"),
        ("Do not use std::process::exit outside main.rs", "std::process::exit(1)", "src/a.rs"),
        ("You must not use typing.Optional.", "from typing import Any, Optional", "src/a.py"),
        ("Never use Buffer in src/utils", "export const a = Buffer.from('x')", "src/utils/html.ts"),
        ("Never use Buffer in src/utils", "const a = new Buffer", "src/utils/html.ts"),
        ("Never use Buffer in src/utils", "const f = (a: Buffer): void => {}", "src/utils/html.ts"),
        ("Never use Buffer in src/utils", "const a = new globalThis.Buffer(1)", "src/utils/html.ts"),
        ("Never use Instant in src", "    let a = Instant::now();", "src/a.rs"),
        ("Never use console.log in src", "globalThis.console.log('1')", "src/a.ts"),
        ("Never use console.log in src", "window?.console?.log('1')", "src/a.ts"),
        ("Never use print()", "builtins.print(1)", "src/a.py"),
        ("Never import node:fs in src/router", "import { readFileSync } from 'node:fs'", "src/router/a.ts"),
        ("No node:fs in src/router", "import a from 'node:fs/promises'", "src/router/a.ts"),
        ("Never import @hono/node-server", "import { serve } from '@hono/node-server'", "src/a.ts"),
        ("Use lodash-es instead of lodash/fp", "import fp from 'lodash/fp'", "src/a.ts"),
        ("Never import 'vue' in src", "const a = await import('vue')", "src/a.ts"),
        ("Never import 'vue' in src", "export { ref } from 'vue'", "src/a.ts"),
        ("Never import 'vue' in src", "const { ref } = require('vue')", "src/a.js"),
        ("Do not import ref or computed from 'vue'", "import { computed, h } from 'vue'", "src/a.ts"),
        ("Do not import ref from `vue`", "const { ref } = require('vue')", "src/a.js"),
        ("Never use console.log", "console.log(1)", "src/a.vue"),
        ("Never import unsafe", 'import u "unsafe"', "src/a.go"),
        ("Don't use ioutil", 'import "io/ioutil"', "a.go"),
        ("Don't use ioutil", "\tdata, err := ioutil.ReadAll(nil)", "a.go"),
        ("Do not use testify", 'import a "github.com/stretchr/testify/assert"', "a_test.go"),
        ("Never use goto", "\tgoto end", "a.go"),
        ("Do not use datetime.utcnow", "a = datetime.datetime.utcnow()", "a.py"),
        ("Do not use datetime.utcnow", "a = dt.datetime.utcnow()", "a.py"),
        ("never import shop.schema in src/shop/utils.py", "from . import schema", "src/shop/utils.py"),
        ("never import shop.schema in src/shop/utils.py", "from .schema import Schema", "src/shop/utils.py"),
        ("never import shop.schema", "from ..schema import Schema", "src/shop/parts/utils.py"),
        ("No simplejson.", "import simplejson", "a.py"),
        ("Avoid pickle", "import pickle", "a.py"),
        ("pickle is forbidden", "import pickle", "a.py"),
        ("use warnings.warn, not print", "print(1)", "a.py"),
        ("Log with slog, never leave fmt.Println in src", "fmt.Println(1)", "src/a.go"),
        ("Never use print()", "print (app)", "a.py"),
        ("Never use print()", 'a = f"{print(1)}"', "a.py"),
        ("Never use eval()", "a = `${eval(1)}`", "a.ts"),
        ("Never use `SELECT *`", 'ask("SELECT * FROM lamps")', "a.py"),
        ("Don't use asyncio.get_event_loop()", "from asyncio import get_event_loop", "a.py"),
    ],
)
def test_line_with_a_forbidden_name_is_found(rule, line, path):
    assert [one.lines_in(path, line) for one in forbidden_by(rule)] == [[1]]


@pytest.mark.parametrize(
    "rule",
    [
        "Never import from 'vue' in src",
        "Don't import anything from 'vue' in src.",
        "Do not import ref or computed from 'vue' in src",
        "Import ref, computed and toRefs from 'vue-demi' instead of 'vue' in src",
        "Files in src import reactivity helpers from vue-demi, never from vue.",
        "In src, import helpers from `vue-demi`, not from `vue`.",
        "Only import from 'vue-demi' in src, never from 'vue'",
        "Imports from 'vue' are not allowed in src",
        "Imports of 'vue' in src are forbidden",
        "Importing from vue is forbidden in src",
        "No imports of vue in src",
        "Avoid importing from 'vue' in src",
        "'vue' must not be imported in src",
        "ref must not be imported from 'vue' in src",
        "Never `import … from 'vue'` in src",
    ],
)
def test_import_ban_is_read_in_ordinary_words(rule):
    (forbidden,) = forbidden_by(rule)
    text = "import {\n  ref,\n  computed,\n} from 'vue'\n"
    assert (forbidden.name, forbidden.inside) == ("vue", "src")
    assert forbidden.lines_in("src/a.ts", text) == [4]
    assert forbidden.lines_in("src/a.ts", text.replace("'vue'", "'vue-demi'")) == []
    assert forbidden.lines_in("docs/a.ts", text) == []


@pytest.mark.parametrize(
    ("rule", "names", "inside"),
    [
        ("never call eval() or exec() in shop code", ["eval()", "exec()"], "shop"),
        ("Don't import requests or httpx anywhere under src/", ["requests", "httpx"], "src/"),
        ("Do not use log.Fatal, log.Panic or `os.Exit`", ["log.Fatal", "log.Panic", "os.Exit"], ""),
        ("pickle and marshal are forbidden", ["pickle", "marshal"], ""),
        ("Use httpx instead of requests or urllib3", ["requests", "urllib3"], ""),
    ],
)
def test_rule_may_forbid_several_names(rule, names, inside):
    forbidden = [*forbidden_by(rule)]
    assert [one.name for one in forbidden] == names
    assert {one.inside for one in forbidden} == {inside}


def test_import_on_several_lines_of_python_is_found():
    (forbidden,) = forbidden_by("Do not use typing.Optional")
    assert forbidden.lines_in("a.py", "from typing import (\n    Any,\n    Optional,\n)\n") == [4]


def test_import_in_a_block_of_go_is_found():
    (forbidden,) = forbidden_by("Never import unsafe")
    assert forbidden.lines_in("a.go", 'package a\n\nimport (\n\t"fmt"\n\t"unsafe"\n)\n') == [5]


@pytest.mark.parametrize(
    ("rule", "line", "path"),
    [
        ("Never import trio directly; use anyio.", "from anyio import trio_backend", "src/a.py"),
        ("Do not use print() in src", "    self.print(a)", "src/a.py"),
        ("Do not use print() in src", "def print(a):", "src/a.py"),
        ("Do not use print() in src", "print(a)", "tests/a.py"),
        ("Never call print in library code.", "print(a)", "tests/a.py"),
        ("Do not use std::process::exit outside main.rs", "std::process::exit(1)", "src/main.rs"),
        ("Don't use `console.log`", "// console.log(a)", "web/a.ts"),
        ("Don't use `console.log`", "a = '\"'; /* b\nnot console.log(a) */ c() // console.log(a)", "web/a.ts"),
        ("Never use fmt.Println", "func a() { /* fmt.Println in a comment */ }", "a.go"),
        ("Never use print()", 'logger.warning("print(1)")', "a.py"),
        ("Never use print()", '"""print(1)"""', "a.py"),
        ("Never use eval()", 'log("eval(1)")', "a.ts"),
        ("Never use print()", "a = '#' + b  # not print(a)", "src/a.py"),
        ("Don't use mocks in tests.", "mocks = 3", "tests/test_a.py"),
        ("Never import node:fs in src/router", "import p from 'node:path'", "src/router/a.ts"),
        ("Never import node:fs in src/router", "import { Buffer } from 'node:buffer'", "src/utils/html.ts"),
        ("Never import node:fs in src/router", "import a from 'node:fs'", "src/utils/html.ts"),
        ("Never use console.log", "my.console.log(1)", "src/a.ts"),
        ("Never use Buffer", "throw new Error('Buffer is full')", "src/a.ts"),
        ("Never use Buffer", "class Buffer {", "src/a.ts"),
        ("Never use Buffer", "a.Buffer.from(1)", "src/a.ts"),
        ("Never use goto", "goto_end = 1", "a.py"),
        ("Do not use datetime.utcnow", "self.datetime.utcnow()", "a.py"),
        ("never import shop.schema", "from .schema import Schema", "src/till/utils.py"),
        ("Don't use ioutil", 'import "./ioutil"', "a.ts"),
        ("Never use requests in tests", "requests.append(1)", "tests/test_a.py"),
        ("Never import 'vue' in src", "import { ref } from 'vue-demi'", "src/a.ts"),
        ("Never import 'vue' in src", "import Vue from 'vue-demi'", "src/a.ts"),
        ("Never import 'vue' in src", "import { ref } from './vue'", "src/a.ts"),
        ("Never import 'vue' in src", "vue(1)", "src/a.ts"),
        ("Do not import ref or computed from 'vue'", "import { h } from 'vue'", "src/a.ts"),
        ("Use date-fns instead of date-fn", "import a from 'date-fn-tz'", "src/a.ts"),
    ],
)
def test_line_without_the_forbidden_name_is_not_found(rule, line, path):
    (forbidden,) = forbidden_by(rule)
    assert forbidden.lines_in(path, line) == []


@pytest.mark.parametrize(
    "rule",
    [
        "Never use `unsafe` without a comment",
        "Never call `time.sleep()` in a request.",
        "Stop using assert for validation, raise ValueError instead.",
        "Never delete `config.yaml`",
        "Never create tags.",
        "No tags in releases.",
        "Commits to main are forbidden",
        "Every fetch has a timeout.",
        "Use `just test` to run the tests.",
        "Use tabs, not spaces.",
        "Avoid duplication",
        "No tags.",
        "This is forbidden.",
        "Use `None`, not `False`, for missing values.",
        "Get approval from a maintainer, not from a bot.",
        "Import errors must be reported, never from tests.",
    ],
)
def test_rule_with_a_condition_or_without_a_name_forbids_no_name(rule):
    assert [*forbidden_by(rule)] == []


def test_place_that_no_path_names_does_not_limit_a_rule():
    paths = ["recovery.go", "recovery_test.go", "worker/pool.go"]
    (of_package,) = forbidden_by("Never use fmt.Println in the gin package")
    assert of_package.among(paths).lines_in("recovery.go", "fmt.Println(1)") == [1]
    (of_folder,) = forbidden_by("Never use fmt.Println in worker")
    assert of_folder.among(paths).lines_in("recovery.go", "fmt.Println(1)") == []


def test_rule_with_an_unknown_exception_finds_nothing():
    (forbidden,) = forbidden_by("Never use fmt.Println outside of debug mode")
    assert forbidden.among(["recovery.go"]) is None


def test_text_of_a_docstring_is_no_use():
    (name,) = forbidden_by("Never use print()")
    assert name.lines_in("a.py", '"""\nprint(1)\n"""\nprint(2)') == [4]
