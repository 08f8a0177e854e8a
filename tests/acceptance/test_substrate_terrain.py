"""The terrain that a repository makes: its nodes, tied to its sources, through the four tools."""

import pytest
from project import Project

from space_parts import all_of, node_called, open_space, read
from treering.core.patch import Patch, Transition
from treering.ports.runtime import fresh_id

MANIFEST = '[project]\nname = "acme"\nversion = "{version}"\ndependencies = ["httpx>=0.27"]\n'
CODE = '"""Carts."""\n\n\ndef total(cart):\n    """Add the prices up."""\n    return sum(cart)\n'
GUIDE = "# Guide\n\nRead this first.\n"


@pytest.fixture
def project(tmp_path):
    made = Project(tmp_path / "acme")
    made.commit(
        pyproject_toml=MANIFEST.format(version="1.0"),
        README_md="# Acme\n\nA shop.\n",
        docs__guide_md=GUIDE,
        src__shop__cart_py=CODE,
        src__shop__tax_py=CODE.replace("Carts", "Taxes"),
        src__depot__shelf_py=CODE.replace("Carts", "Shelves"),
    )
    return made


@pytest.fixture
def space():
    with open_space(channel="user") as opened:
        yield opened


def ingest(space, project, **options):
    return space.ingest("repo", input={"path": str(project.folder)}, options=options)


def source(space, path):
    """Return the active source of a file."""
    (found,) = [one for one in all_of(space, "source") if one.origin.endswith(f"#{path}") and one.status == "active"]
    return found


def tied(space, identity, **given):
    """Return the ids that a query finds tied by `about`."""
    return set(space.query("related", input={"id": identity, "types": ["about"], **given}).ids)


def findings(space, rule):
    return space.lint("structure", input={"rules": [rule]}).findings


def archive(space, item):
    """Archive an object in a person's name."""
    clock = space.engine.clock
    operation = Transition(id=item.id, expected_revision=item.revision, to="archived")
    space.engine.ledger.commit(
        Patch(id=fresh_id("patch", clock), source=space.engine.author, operations=[operation], created_at=clock.now())
    )


def test_modules_and_documents_are_tied_to_their_sources(space, project):
    ingest(space, project)
    shop, guide = node_called(space, "shop"), node_called(space, "docs/guide.md")
    cart, tax = source(space, "src/shop/cart.py"), source(space, "src/shop/tax.py")
    assert tied(space, shop.id) == {cart.id, tax.id}
    assert tied(space, guide.id) == {source(space, "docs/guide.md").id}
    assert tied(space, cart.id) == {shop.id}


def test_no_node_of_a_repository_is_an_orphan(space, project):
    ingest(space, project)
    assert findings(space, "orphan-node") == ()


@pytest.mark.parametrize("files", [{"notes_txt": "Nothing but a note.\n"}, {"README_md": "# A\n\nText.\n"}])
def test_the_node_of_a_small_repository_is_no_orphan_either(space, tmp_path, files):
    small = Project(tmp_path / "small")
    small.commit(**files)
    ingest(space, small)
    assert findings(space, "orphan-node") == ()


def test_facts_from_manifests_name_their_subject(space, project):
    ingest(space, project)
    whole = node_called(space, "acme")
    facts = [one for one in all_of(space, "knowledge") if one.kind == "fact"]
    assert {fact.payload.predicate for fact in facts} >= {"version", "depends on httpx"}
    assert {fact.subject_refs for fact in facts} == {(whole.id,)}
    page = space.query("page", input="acme")
    assert {one.id for one in page.referrers if one.fields == ("subject_refs",)} == {fact.id for fact in facts}


def test_a_rule_of_a_package_below_names_the_module_of_its_folder(space, tmp_path):
    made = Project(tmp_path / "mono")
    made.commit(
        packages__web__package_json='{"name": "web", "version": "2.0.0"}',
        packages__web__index_js="let a = 1\n",
        packages__web__AGENTS_md="Never use `any` as a type.\n",
    )
    ingest(space, made)
    (rule,) = all_of(space, "knowledge")
    assert rule.subject_refs == (node_called(space, "web").id,)


def test_nodes_of_what_was_deleted_are_archived_with_it_and_come_back_with_it(space, project):
    ingest(space, project)
    depot, guide = node_called(space, "depot"), node_called(space, "docs/guide.md")
    project.git("rm", "-rq", "src/depot", "docs")
    project.git("commit", "-qm", "Less")
    ingest(space, project)
    assert [read(space, one.id).status for one in (depot, guide)] == ["archived", "archived"]
    assert node_called(space, "shop").status == "active"
    project.git("revert", "--no-edit", "HEAD")
    ingest(space, project)
    assert [read(space, one.id).status for one in (depot, guide)] == ["active", "active"]
    assert tied(space, guide.id) >= {source(space, "docs/guide.md").id}
    assert [one.id for one in all_of(space, "node") if one.name == "depot"] == [depot.id]
    assert findings(space, "orphan-node") == ()


def test_what_is_known_about_a_node_stays_with_it_while_it_is_away(space, project):
    ingest(space, project)
    depot = node_called(space, "depot")
    given = {
        "kind": "constraint",
        "title": "Shelves are numbered",
        "payload": {"rule": "Shelves are numbered"},
        "subject_refs": [depot.id],
    }
    (rule,) = [one for one in space.crystallize("knowledge", input=given).ids if one.startswith("know:")]
    project.git("rm", "-rq", "src/depot")
    project.git("commit", "-qm", "Less")
    ingest(space, project)
    project.git("revert", "--no-edit", "HEAD")
    ingest(space, project)
    assert rule in {one.id for one in space.query("page", input=depot.id).referrers}


def test_a_node_that_a_person_archived_stays_archived(space, project):
    ingest(space, project)
    shop = node_called(space, "shop")
    archive(space, shop)
    project.commit(src__shop__cart_py=CODE + "\n\nMORE = 1\n")
    ingest(space, project)
    assert read(space, shop.id).status == "archived"
    assert [one.id for one in all_of(space, "node") if one.slug == shop.slug] == [shop.id]


def test_a_file_that_moves_to_another_module_is_tied_to_that_one(space, project):
    ingest(space, project)
    tax = source(space, "src/shop/tax.py")
    project.git("mv", "src/shop/tax.py", "src/depot/tax.py")
    project.git("commit", "-qm", "Move")
    ingest(space, project)
    assert source(space, "src/depot/tax.py").id == tax.id
    assert tied(space, tax.id) == {node_called(space, "depot").id}


def test_a_tie_that_a_person_made_stays(space, project):
    ingest(space, project)
    shop, guide = node_called(space, "shop"), source(space, "docs/guide.md")
    item = {"title": "Read up", "links": [{"type": "about", "target": shop.id}]}
    space.crystallize("work_item", input=item)
    project.commit(src__shop__cart_py=CODE + "\n\nMORE = 1\n")
    ingest(space, project)
    assert len(tied(space, shop.id)) == 3
    assert guide.id not in tied(space, shop.id)


def test_reading_an_unchanged_repository_again_writes_nothing(space, project):
    ingest(space, project)
    before = space.engine.ledger.sequence()
    assert ingest(space, project).status == "unchanged"
    assert ingest(space, project, dry_run=True).status == "unchanged"
    assert space.engine.ledger.sequence() == before


def test_files_of_a_wider_ingest_are_linked_too(space, project):
    ingest(space, project, include=["*.md"])
    ingest(space, project)
    assert tied(space, node_called(space, "shop").id) == {
        source(space, "src/shop/cart.py").id,
        source(space, "src/shop/tax.py").id,
    }


def test_two_repositories_of_one_name_do_not_archive_each_others_nodes(space, project, tmp_path):
    (tmp_path / "other").mkdir()
    twin = Project(tmp_path / "other" / "acme")
    twin.commit(src__depot__shelf_py=CODE)
    ingest(space, project)
    ingest(space, twin)
    twin.git("rm", "-rq", "src/depot")
    twin.commit(src__web__page_py=CODE)
    ingest(space, twin)
    assert node_called(space, "depot").status == "active"
