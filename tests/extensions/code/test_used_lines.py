"""The lines that use a name are code, and no comments, strings, imports, keys or other objects' members."""

import pytest

from treering.extensions.code.links.used_lines import lines_using


@pytest.mark.parametrize(
    ("family", "code", "expected"),
    [
        ("py", 'from app import (\n    total,\n)\n"""total\ntotal"""\nx = "total"  # total\ny = total(x)\n', (7,)),
        ("py", "f(total=1)\nprint(f'{total(1)}')\nrow.total()\n@total\n", (2, 4)),
        ("js", "import {\n  total,\n} from './total'\n/* total\ntotal */\nconst a = { total: total }\n", (6,)),
        ("js", "const { total } = require('./total')\nf(...total([]), 'total', \"total\") // total\n", (2,)),
        ("js", "export { total }\nexport type { total } from './a'\nexport const a = total<number>()\n", (3,)),
        ("rs", "use crate::{total, a};\npub(crate) use a::total;\nfn f<'a>(x: &'a str) {\n    total!(x)\n}\n", (4,)),
        ("go", "// total\nfmt.Println(total(1), `total`)\n", (2,)),
        ("rb", "# total\nputs total(1)\n", (2,)),
        ("rb", "total 1\n:total\ntotal? 2\ntotal = 3\n\"total\"\nputs \"#{total 4}\"\n", (1, 6)),
        ("java", "import app.total;\nint a = total(1);\nString b = \"total\";\n", (2,)),
    ],
)  # fmt: skip
def test_lines_using_a_name_are_code(family, code, expected):
    assert lines_using(code, "total", family) == expected


def test_lines_using_a_member_name_its_object():
    assert lines_using("total = cart.total()\nother(total)\n", "total", "py", member=True) == (1,)


@pytest.mark.parametrize("family", ["java", "cs", "c"])
def test_lines_using_an_own_method_need_no_object(family):
    code = "int total = 1;\ntotal();\nthis.total();\nsubtotal();\n"
    assert lines_using(code, "total", family, member=True, own=True) == (2, 3)


def test_lines_using_a_name_only_through_its_module_are_found():
    assert lines_using("import sums\n\nsums.total(1)\n", "total", "py") == (3,)


def test_lines_using_a_longer_name_are_left_out():
    assert lines_using("total_of(1)\n$total(1)\nsubtotal(1)\n", "total", "js") == ()
