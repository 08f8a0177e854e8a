"""Links of code as people ask for them: who imports, calls and tests a file or a symbol, and what it uses itself."""

import os
from pathlib import Path

import pytest
from project import Project
from shop_of_languages import FILES, QUESTIONS

from space_parts import all_of, node_called, note, open_space
from treering.core.errors import NotFound

GOLDEN = Path(__file__).parent / "golden" / "code_links.txt"
OF_CODE = ["imports", "calls", "uses", "tests", "changes_with"]


def write(project, files):
    for path, text in files.items():
        file = project.folder / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    return project.commit()


def ingest(space, project):
    return space.ingest("repo", input={"path": str(project.folder)})


def ask(space, what, types=OF_CODE, **given):
    return space.query("related", input={"id": what, "types": types, **given})


def told(space, what, **given):
    """Return what is said of links of code, one line each."""
    return [
        " ".join(filter(None, [one.told, f"({one.of})" if one.of else "", one.symbol, "at", _place(one.place)]))
        for one in ask(space, what, **given).code
    ]


def _place(place):
    return place.partition(" @ ")[0]


def source(space, path):
    (found,) = [one for one in all_of(space, "source") if one.origin.endswith(f"#{path}") and one.status == "active"]
    return found


@pytest.fixture(scope="module")
def shop(tmp_path_factory):
    project = Project(tmp_path_factory.mktemp("shop") / "shop")
    write(project, FILES)
    with open_space(channel="user") as space:
        ingest(space, project)
        yield space


@pytest.fixture
def project(tmp_path):
    return Project(tmp_path / "shop")


@pytest.fixture
def space():
    with open_space(channel="user") as opened:
        yield opened


def test_links_of_a_repository_in_many_languages(shop):
    text = "".join(f"{what}\n{''.join(f'  {line}' + chr(10) for line in told(shop, what))}" for what in QUESTIONS)
    if os.environ.get("REWRITE_GOLDEN"):
        GOLDEN.write_text(text, encoding="utf-8")
    assert text == GOLDEN.read_text(encoding="utf-8"), "If this is meant, run the tests with REWRITE_GOLDEN=1."


def test_a_file_is_asked_about_by_its_id_its_path_its_origin_or_the_end_of_it(shop):
    cart = source(shop, "src/shop/cart.py")
    named = (cart.id, "src/shop/cart.py", cart.origin, "shop/cart.py")
    assert len({tuple(told(shop, name)) for name in named}) == 1
    assert told(shop, cart.id)


def test_a_segment_is_asked_about_by_its_id_alone_or_behind_that_of_its_source(shop):
    cart = source(shop, "src/shop/cart.py")
    (part,) = [part for part in cart.segments if "def total" in part.excerpt]
    asked = told(shop, part.segment_id)
    assert asked == told(shop, f"{cart.id} {part.segment_id}")
    assert "called by (total) taxed at src/shop/tax.py#L10-L10" in asked


def test_a_name_of_nothing_is_not_found(shop):
    with pytest.raises(NotFound):
        ask(shop, "nothing_is_called_so")


def test_a_module_is_linked_to_what_is_outside_of_it(shop):
    (node,) = [one for one in all_of(shop, "node") if one.kind == "module" and "src/shop" in one.aliases]
    found = ask(shop, node.id)
    assert {one.title for one in found.code} == {"tests/test_cart.py"}
    assert "tests/test_cart.py" in {one.title for one in found.code if one.relation == "tests"}


def test_links_can_be_narrowed_to_a_kind_and_a_direction(shop):
    assert told(shop, "src/shop/tax.py", types=["imports"], direction="out") == ["imports at src/shop/cart.py"]
    assert told(shop, "src/shop/tax.py", types=["about"]) == []


def test_of_an_earlier_time_no_links_of_code_are_reported_and_the_answer_says_so(shop):
    cart = source(shop, "src/shop/cart.py")
    report = shop.query("related", input={"id": cart.id}, options={"as_of": shop.engine.ledger.sequence()})
    assert report.code == ()
    assert "known only for the current state" in " ".join(report.warnings)


def test_definition_is_named_with_its_file(space, project):
    till = "from app.{0} import {0}\n\n\nclass Till:\n    def open(self):\n        return {0}()\n"
    called = {f"app/{name}.py": f"def {name}():\n    return 1\n" for name in ("cash", "card")}
    tills = {"app/one.py": till.format("cash"), "app/two.py": till.format("card")}
    write(project, {**called, **tills, "app/__init__.py": ""})
    ingest(space, project)
    for named, name in (("app/one.py::Till::open", "cash"), ("two.py::Till.open()", "card")):
        links = told(space, named, types=["calls"], direction="out")
        assert links == [f"calls {name} at app/{name}.py#L1-L1"]
    with pytest.raises(NotFound):
        ask(space, "app/two.py::Till::refund")


def test_a_link_appears_with_the_file_that_it_leads_to_and_ends_with_it(space, project):
    write(project, {"app/a.py": "from app.b import run\n\n\ndef go():\n    run()\n", "app/__init__.py": ""})
    ingest(space, project)
    assert told(space, "app/a.py") == []
    write(project, {"app/b.py": "def run():\n    pass\n"})
    ingest(space, project)
    assert "called by (run) go at app/a.py#L5-L5" in told(space, "run")
    (project.folder / "app/b.py").rename(project.folder / "app/c.py")
    project.commit()
    ingest(space, project)
    assert told(space, "app/a.py", types=["imports", "calls", "uses"]) == []
    assert space.lint("reindex").differences == ()


def test_a_name_that_two_files_define_is_linked_to_none_where_its_user_does_not_say_which(space, project):
    files = {"a.rb": "class Cart\nend\n", "b.rb": "def show\n  Cart.new\nend\n"}
    write(project, files)
    ingest(space, project)
    assert told(space, "a.rb") == ["used by (Cart) show at b.rb#L2-L2"]
    write(project, {"c.rb": "class Cart\nend\n"})
    ingest(space, project)
    assert told(space, "a.rb", types=["calls", "uses"]) == []
    assert told(space, "a.rb::Cart", types=["calls", "uses"]) == ["perhaps used by (Cart) show at b.rb#L2-L2"]


def test_calls_of_a_method_that_several_types_have_are_uncertain(space, project):
    roles = "package roles\n\nfunc (r *Roles) RebuildAll() error {\n\treturn nil\n}\n"
    policy = "package policy\n\nfunc (p *Policy) RebuildAll() error {\n\treturn nil\n}\n"
    load = "package load\n\nfunc Load(a *roles.Roles) {\n\tlist := make([]string, 0)\n\ta.RebuildAll()\n}\n"
    write(project, {"go.mod": "module shop\n", "roles/r.go": roles, "policy/p.go": policy, "load/l.go": load})
    ingest(space, project)
    links = ask(space, "roles/r.go::Roles.RebuildAll", types=["calls"]).code
    assert [(one.told, one.symbol, one.sure) for one in links] == [("perhaps called by", "Load", False)]
    assert told(space, "load/l.go::Load", types=["calls"], direction="out") == []


SHOP = {
    "go.mod": "module shop\n",
    "till.go": "package shop\n\ntype Till struct{}\n\nfunc (t *Till) CountCoins() int {\n\treturn 1\n}\n",
    "safe.go": "package shop\n\ntype Safe struct{}\n\nfunc (s *Safe) CountCoins() int {\n\treturn 2\n}\n",
    "coins.go": "package shop\n\ntype Coins interface {\n\tCountCoins() int\n}\n",
    "desk.go": "package shop\n\ntype Desk struct {\n\t*Till\n}\n",
}


@pytest.mark.parametrize(
    ("variable", "of_till", "of_safe"),
    [
        ("x *Till", ["called by"], []),
        ("x *Desk", ["perhaps called by"], ["perhaps called by"]),  # Desk embeds Till
        ("x Coins", ["perhaps called by"], ["perhaps called by"]),
    ],
)
def test_a_call_in_go_is_linked_by_the_type_of_its_variable(space, project, variable, of_till, of_safe):
    use = f"package shop\n\nfunc Report({variable}) int {{\n\treturn x.CountCoins()\n}}\n"
    write(project, {**SHOP, "report.go": use})
    ingest(space, project)
    found = [
        [one.told for one in ask(space, f"{file}::CountCoins", types=["calls"]).code if one.symbol == "Report"]
        for file in ("till.go", "safe.go")
    ]
    assert found == [of_till, of_safe]


def test_a_call_of_a_go_method_uses_its_type(space, project):
    use = "package shop\n\nfunc Report() int {\n\tx := NewTill()\n\treturn x.CountCoins()\n}\n"
    write(project, {**SHOP, "report.go": use})
    ingest(space, project)
    links = ask(space, "till.go::Till", types=["calls", "uses"], direction="in").code
    assert [one.told for one in links if one.symbol == "Report"] == ["used by"]


def test_the_test_of_a_go_method_that_several_types_have_is_found(space, project):
    test = "package shop\n\nfunc TestTill(t *testing.T) {\n\tx := &Till{}\n\tx.CountCoins()\n}\n"
    write(project, {**SHOP, "till_test.go": test})
    ingest(space, project)
    assert told(space, "till.go::Till.CountCoins", types=["tests"]) == [
        "tested by (Till.CountCoins) TestTill at till_test.go#L5-L5"
    ]
    assert told(space, "safe.go::Safe.CountCoins", types=["tests"]) == []
    assert told(space, "till_test.go", types=["calls"], direction="out") == ["calls Till.CountCoins at till.go#L5-L5"]


def test_a_caller_in_the_passage_of_a_definition_is_found_but_no_recursion(space, project):
    text = "def add(n):\n    return add(n - 1)\n\n\ndef double(n):\n    return add(n) + add(n)\n"
    write(project, {"sums.py": text})
    ingest(space, project)
    assert len(source(space, "sums.py").segments) == 1
    assert told(space, "sums.py::add") == ["called by (add) double at sums.py#L6-L6"]
    assert told(space, "sums.py::double") == []


def test_methods_of_a_type_in_another_file_have_users_as_a_part_of_their_file(space, project):
    method = "package shop\n\nfunc (t *Till) Empty() int {\n\treturn 0\n}\n"
    use = "package shop\n\nfunc Report(t *Till) int {\n\treturn t.Empty() + t.CountCoins()\n}\n"
    write(project, {**SHOP, "empty.go": method, "report.go": use})
    ingest(space, project)
    assert told(space, "empty.go", types=["calls"]) == ["called by (Till.Empty) Report at report.go#L4-L4"]


@pytest.mark.parametrize(
    ("path", "relations"),
    [
        ("tests/syntax-tests/source/Rust/output.rs", []),
        ("tests/data/output.rs", []),
        ("crates/till/testdata/output.rs", []),
        ("tests/output.rs", ["tested by"]),
        ("tests/data_export.rs", ["tested by"]),
    ],
)
def test_data_that_tests_read_tests_nothing_by_equal_names(space, project, path, relations):
    code = "fn show(to: Pager) -> Pager {\n    to.next()\n}\n"
    write(project, {"src/pager.rs": "pub struct Pager {\n    pub lines: usize,\n}\n", path: code})
    ingest(space, project)
    assert [one.told for one in ask(space, "src/pager.rs::Pager", types=["tests"]).code] == relations


def test_fixtures_that_import_the_code_test_it(space, project):
    write(project, {"app/__init__.py": "", "app/cart.py": "def total():\n    pass\n"})
    write(project, {"tests/fixtures/carts.py": "from app.cart import total\n\n\ndef cart():\n    return total()\n"})
    ingest(space, project)
    assert [one.told for one in ask(space, "app/cart.py::total", types=["tests"]).code] == ["tested by"]


def test_comments_and_strings_contain_no_uses(space, project):
    code = (
        "from app import cart\n\n\ndef show():\n"
        '    """See cart.total()."""\n    # cart.total()\n    return "cart.total()"\n'
    )
    write(project, {"app/__init__.py": "", "app/cart.py": "def total():\n    pass\n", "app/show.py": code})
    ingest(space, project)
    assert told(space, "total", types=["calls", "uses"]) == []


def test_two_repositories_in_one_space_are_not_linked_by_equal_names(space, tmp_path):
    for name in ("one", "two"):
        project = Project(tmp_path / name)
        write(project, {"app/__init__.py": "", "app/b.py": f"def run():\n    return '{name}'\n"})
        write(project, {"app/a.py": "from app.b import run\n\n\ndef go():\n    run()\n"})
        ingest(space, project)
    for one in (one for one in all_of(space, "source") if one.title == "app/b.py"):
        (user,) = [near for near in ask(space, one.id, types=["imports"]).code if near.direction == "in"]
        root = one.origin.partition("#")[0]
        assert space.query("page", input={"id": user.id}).object["origin"].startswith(f"{root}#")


def test_links_do_not_lead_out_of_a_scope(space, project):
    write(project, {"app/__init__.py": "", "app/b.py": "def run():\n    pass\n", "app/a.py": "import app.b\n"})
    for scope in ("/one", "/two"):
        space.ingest("repo", scope=scope, input={"path": str(project.folder)})
        (found,) = [one for one in all_of(space, "source") if one.title == "app/b.py" and one.scope == scope]
        inside = space.query("related", scope=scope, input={"id": found.id}).code
        assert [(one.told, _scope(space, one.id)) for one in inside] == [("imported by", scope)]
        with pytest.raises(NotFound):
            ask(space, "app/b.py")  # nobody at / sees it


def _scope(space, identity):
    return space.engine.ledger.get(identity).scope


def test_files_that_commits_touch_together_are_related(space, project):
    for number in range(3):
        write(project, {"cart.py": f"PRICE = {number}\n", "prices.md": f"# {number}\n"})
    write(project, {"cart.py": "PRICE = 9\n"})
    ingest(space, project)
    (line,) = told(space, "cart.py")
    assert line.startswith("changes together with (3 of the last 4 commits, last on 20")
    assert line.endswith("at prices.md")
    assert [one.title for one in ask(space, "prices.md").code] == ["cart.py"]
    assert node_called(space, "shop")


def test_a_context_says_what_may_break_where_the_code_it_shows_is_changed(shop):
    pack = shop.query("context", input={"task": "change how the total of a cart adds the prices up"}).pack
    (line,) = [line for line in pack.may_break if line.startswith('"total (src/shop/cart.py)"')]
    assert '"taxed' in line
    assert 'tested by "tests/test_cart.py"' in line
    assert not any(line.startswith('"test') for line in pack.may_break)


def test_a_context_without_code_says_nothing_of_what_may_break_and_asks_nothing_for_it(space):
    note(space, "Bees hum at noon.")
    report = space.query("context", input={"task": "bees at noon"})
    assert report.pack.may_break == ()
    assert "May break" not in report.text


GO_JOIN = 'package paths\n\nimport "path"\n\nfunc SmartJoin(a, b string) string {\n\treturn path.Join(a, b)\n}\n'
GO_USE = """\
package {name}

import "example.com/acme/paths"

func Open{name}() string {{
	return paths.SmartJoin("a", "b")
}}
"""


def test_context_names_users_in_other_packages_of_go(space, project):
    users = {f"{name}/open.go": GO_USE.format(name=name) for name in ("disk", "net")}
    write(project, {"go.mod": "module example.com/acme\n\ngo 1.22\n", "paths/join.go": GO_JOIN, **users})
    ingest(space, project)
    pack = space.query("context", input={"task": "rename SmartJoin to JoinUnlessAbs"}).pack
    (line,) = [line for line in pack.may_break if line.startswith('"SmartJoin (paths/join.go)"')]
    assert '"Opendisk (disk/open.go#L6)"' in line
    assert '"Opennet (net/open.go#L6)"' in line


def test_context_names_only_the_definitions_that_contain_the_use(space, project):
    cart = "def total(items):\n    return sum(items)\n"
    till = (
        "from cart import total\n\nRATE = 2\n\n\ndef greet(name):\n    return name\n\n\n"
        "def pay(items):\n    return total(items)\n"
    )
    write(project, {"cart.py": cart, "till.py": till})
    ingest(space, project)
    pack = space.query("context", input={"task": "change how total adds the items"}).pack
    (line,) = [line for line in pack.may_break if line.startswith('"total (cart.py)"')]
    assert '"pay (till.py#L11)"' in line


PAY_VUE = """\
<template>
  <button @click="pay">{{ label }}</button>
</template>

<script setup lang="ts">
import { total } from './cart'

function pay() {
  return total([1])
}
</script>
"""


def test_scripts_of_vue_components_are_callers(space, project):
    cart = "export function total(items: number[]) {\n  return items.length\n}\n"
    write(project, {"src/cart.ts": cart, "src/Pay.vue": PAY_VUE})
    ingest(space, project)
    assert "called by (total) pay at src/Pay.vue#L9-L9" in told(space, "src/cart.ts::total")
    hit = space.query("search", input={"text": "button click label"}).hits[0]
    assert '<button @click="pay">' in hit.text


PY_STORE = "{imported}class {name}{bases}:\n    def load_all(self):\n        return []\n"
TS_STORE = "{imported}export class {name}{bases} {{\n  loadAll(): string[] {{\n    return []\n  }}\n}}\n"
PY_USE = "from {module} import {name}\n\n\ndef of_{name}(it: {name}):\n    return it.load_all()\n"
TS_USE = (
    "import {{ {name} }} from '../{module}'\n\nexport function of_{name}(it: {name}) {{\n  return it.loadAll()\n}}\n"
)


def stores(language):
    """Return files that define classes with a method of one name, and one file for each class that imports it."""
    code, use = (PY_STORE, PY_USE) if language == "py" else (TS_STORE, TS_USE)
    bases = {"Store": "", "FileStore": "Store", "ZipStore": "FileStore", "Jobs": ""}
    files = {}
    for name, base in bases.items():
        module, folder = f"shop/{name.lower()}", f"shop.{base.lower()}"
        imported = (
            f"from {folder} import {base}\n\n\n"
            if language == "py"
            else f"import {{ {base} }} from './{base.lower()}'\n\n"
        )
        inherits = f"({base})" if language == "py" else f"\n  extends {base}"
        files[f"{module}.{language}"] = code.format(
            imported=imported if base else "", name=name, bases=inherits if base else ""
        )
        imported_as = module.replace("/", ".") if language == "py" else module
        files[f"app/of_{name.lower()}.{language}"] = use.format(module=imported_as, name=name)
    return files


def callers(space, method):
    links = ask(space, method, types=["calls"]).code
    return {one.symbol: one.told for one in links if one.symbol.startswith("of_")}


@pytest.mark.parametrize(("language", "method"), [("py", "load_all"), ("ts", "loadAll")])
def test_files_that_import_a_base_class_or_subclass_may_use_a_method(space, project, language, method):
    write(project, stores(language))
    ingest(space, project)
    assert callers(space, f"shop/filestore.{language}::FileStore.{method}") == {
        "of_Store": "perhaps called by",
        "of_FileStore": "called by",
        "of_ZipStore": "perhaps called by",
    }
    assert callers(space, f"shop/store.{language}::Store.{method}").keys() == {
        "of_Store",
        "of_FileStore",
        "of_ZipStore",
    }
    assert callers(space, f"shop/jobs.{language}::Jobs.{method}").keys() == {"of_Jobs"}


def test_base_class_is_found_through_one_without_the_method(space, project):
    between = "from shop.store import Store\n\n\nclass Middle(Store):\n    pass\n"
    own = PY_STORE.format(imported="from shop.middle import Middle\n\n\n", name="FileStore", bases="(Middle)")
    write(project, {**stores("py"), "shop/middle.py": between, "shop/filestore.py": own})
    ingest(space, project)
    assert "of_Store" in callers(space, "shop/filestore.py::FileStore.load_all")


def test_files_that_import_an_interface_may_use_its_method(space, project):
    files = stores("ts")
    files["shop/store.ts"] = "export interface Store {\n  loadAll(): string[]\n}\n"
    files["shop/filestore.ts"] = files["shop/filestore.ts"].replace("extends", "implements")
    write(project, files)
    ingest(space, project)
    assert "of_Store" in callers(space, "shop/filestore.ts::FileStore.loadAll")


def test_callers_follow_a_file_renamed_on_a_branch(space, project):
    checks = "".join(f"    assert all(row['column {at}'] != {at} for row in rows), 'column {at}'\n" for at in range(40))
    caller = "from app.{module} import total\n\n\ndef check(rows):\n" + checks.replace("{", "{{").replace("}", "}}")
    caller += "\n\ndef pay(rows):\n    return total(rows)\n"
    write(project, {"app/__init__.py": "", "app/sums.py": "def total(rows):\n    return 1\n"})
    write(project, {"app/pay.py": caller.format(module="sums")})
    ingest(space, project)
    project.git("checkout", "-q", "-b", "rename")
    project.git("mv", "app/sums.py", "app/totals.py")
    write(project, {"app/pay.py": caller.format(module="totals")})
    ingest(space, project)
    callers = ["called by (total) pay at app/pay.py#L48-L48"]
    assert told(space, "app/totals.py::total", types=["calls"]) == callers
    project.git("checkout", "-q", "main")
    assert told(space, "app/sums.py::total", types=["calls"]) == callers
    project.git("merge", "-q", "rename")
    ingest(space, project)
    project.git("branch", "-q", "-D", "rename")
    assert told(space, "app/totals.py::total", types=["calls"]) == callers
    (pay,) = [one for one in source(space, "app/pay.py").segments if "def pay" in one.excerpt]
    assert pay.uses == ("c app.totals#total",)


RUBY = """\
class Job
  def stop(code)
    code
  end

  def go!(count)
    count
  end

  def done?
    true
  end

  def size=(size)
    @size = size
  end

  def with_arguments
    stop 2
    puts "stop 3"
    throw :stop, 4
    x = stop 5 if true
    x
  end

  def with_marks
    go! 5
    x = go!(6)
    x != 7 && done?
  end

  def with_setters
    self.size = 8
    self.size == 9
  end

  def with_bare_names
    stop if true
  end
end
"""
RUBY_VARIABLES = """\
class Job
  def stop
    0
  end

  def assigned
    stop = 10
    stop
  end

  def given(stop)
    [stop].each { |stop| stop }
  end
end
"""


@pytest.mark.parametrize(
    ("method", "lines"),
    [("stop", [19, 22, 38]), ("go!", [27, 28]), ("done?", [29]), ("size=", [33])],
)
def test_ruby_calls_need_no_parentheses(space, project, method, lines):
    write(project, {"lib/job.rb": RUBY})
    ingest(space, project)
    links = [one for one in ask(space, f"lib/job.rb::{method}").code if one.told == "called by"]
    assert [line for one in links for line in one.lines] == lines


def test_ruby_variables_are_no_calls(space, project):
    write(project, {"lib/job.rb": RUBY_VARIABLES})
    ingest(space, project)
    assert not [line for line in told(space, "lib/job.rb::stop") if line.startswith("called by")]


def test_ruby_calls_without_parentheses_link_files(space, project):
    write(
        project,
        {
            "lib/job.rb": "class Job\n  def call!(count)\n    count\n  end\nend\n",
            "lib/main.rb": "def main(job)\n  @job.call! 3\nend\n",
        },
    )
    ingest(space, project)
    assert "called by (Job.call!) main at lib/main.rb#L2-L2" in told(space, "lib/job.rb::call!")


def test_calls_of_a_member_by_its_class_name_are_callers(space, project):
    write(
        project,
        {
            "lib/job.rb": "class Job\n  def self.start(count)\n    count\n  end\nend\n",
            "lib/main.rb": "def main\n  Job.start 3\nend\n",
            "lib/other.rb": "def other\n  Task.start 3\nend\n",
        },
    )
    ingest(space, project)
    links = [line for line in told(space, "lib/job.rb::start") if line.startswith("called by")]
    assert links == ["called by (Job.start) main at lib/main.rb#L2-L2"]


def test_a_call_of_a_java_variable_is_one_of_its_stated_class(project, space):
    pets = {
        "Pet.java": "package a;\n\nclass Pet {\n  void addVisit() {}\n}\n",
        "Dog.java": "package a;\n\nclass Dog extends Pet {\n  void addVisit() {}\n}\n",
        "Owner.java": "package a;\n\nclass Owner {\n  void addVisit() {}\n}\n",
        "Desk.java": "package a;\n\nclass Desk {\n  void run(Pet pet) {\n    pet.addVisit();\n  }\n}\n",
    }
    write(project, {f"src/a/{name}": text for name, text in pets.items()})
    ingest(space, project)
    callers = {
        name: told(space, f"src/a/{name}.java::{name}.addVisit", types=["calls"]) for name in ("Pet", "Dog", "Owner")
    }
    assert callers == {
        "Pet": ["called by (Pet.addVisit) Desk.run at src/a/Desk.java#L5-L5"],
        "Dog": ["perhaps called by (Dog.addVisit) Desk.run at src/a/Desk.java#L5-L5"],
        "Owner": [],
    }
