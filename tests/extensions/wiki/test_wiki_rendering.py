"""Pages as Markdown: front matter that is YAML, addresses that lead somewhere, and what is a person's."""

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from treering.core.errors import Corrupt, InvalidInput
from treering.extensions.wiki.files.addresses import file_addresses, forge_of, no_address
from treering.extensions.wiki.files.changes import KnownFile, changes_for
from treering.extensions.wiki.files.headings import heading_anchors
from treering.extensions.wiki.files.links import BodyLink, body_links, escaped, with_addresses
from treering.extensions.wiki.files.manifest import WikiManifest, manifest_text, read_manifest
from treering.extensions.wiki.files.page_path import check_page_paths
from treering.extensions.wiki.files.regions import KEEP, block_digests, merged, part
from treering.extensions.wiki.files.rendering import render_pages
from wiki_by_hand import COMMIT, page, small_wiki, wiki

GITHUB = "https://github.com/acme/shop"


def rendered(plan, pages, addresses=None):
    found = render_pages(plan, pages, addresses=addresses or no_address, cited_text=lambda one: f"text of {one}")
    return {one.path: one for one in found}


def matter(text):
    return yaml.safe_load(text.split("---\n")[1])


# Front matter


@pytest.mark.parametrize(
    "title",
    [
        "yes",
        "null",
        "1.5",
        "- a",
        "a: b",
        "# c",
        'say "x" \\ y',
        "{a}",
        "--- ",
        "é\x85\u2028\x07",
        "%x",
        "@at",
        "[x]",
        "😀",
    ],
)
def test_a_title_is_read_from_the_front_matter_as_it_was_given(title):
    text = rendered(*wiki(page("a.md", title, aliases=(title, "~"))))["a.md"].text
    assert matter(text)["title"] == title
    assert matter(text)["aliases"] == [title, "~"]


@settings(max_examples=200, deadline=None)
@given(st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\ufffe\uffff"), max_size=40))
def test_any_title_gives_yaml_that_says_the_same(title):
    assert matter(rendered(*wiki(page("a.md", title)))["a.md"].text)["title"] == title


def test_front_matter_tells_type_sources_and_commits_and_no_time():
    text = rendered(*small_wiki())["modules/routing.md"].text
    assert matter(text) == {
        "type": "module",
        "title": "Routing",
        "description": "What it is for.",
        "aliases": [],
        "status": "fresh",
        "generated": True,
        "sources": [f"src/app.py#L1-L9 @ {COMMIT[:12]}"],
        "verified": [COMMIT[:12]],
        "stale_after": "a change of its sources",
    }


# Links


@pytest.mark.parametrize(
    ("remote", "address"),
    [
        ("https://github.com/acme/shop.git", f"{GITHUB}/blob/{COMMIT}/src/app.py#L1-L9"),
        ("git@github.com:acme/shop.git", f"{GITHUB}/blob/{COMMIT}/src/app.py#L1-L9"),
        ("https://someone:secret@github.com/acme/shop", f"{GITHUB}/blob/{COMMIT}/src/app.py#L1-L9"),
        (
            "ssh://git@gitlab.acme.org:2222/a/b/shop.git",
            f"https://gitlab.acme.org/a/b/shop/-/blob/{COMMIT}/src/app.py#L1-9",
        ),
        ("https://codeberg.org/acme/shop", f"https://codeberg.org/acme/shop/src/commit/{COMMIT}/src/app.py#L1-L9"),
    ],
)
def test_a_citation_leads_to_the_forge_at_its_commit(remote, address):
    text = rendered(*small_wiki(), forge_of(remote))["modules/routing.md"].text
    assert f"[here]({address})" in text
    assert "secret" not in text


@pytest.mark.parametrize(
    "remote", ["", "/srv/shop.git", "javascript:alert(1)//github.com/a/b", "https://example.org/a/b"]
)
def test_a_remote_of_unknown_form_gives_no_address(remote):
    assert forge_of(remote) is None


def test_a_citation_leads_into_the_work_tree_where_the_wiki_is_in_it():
    files = rendered(*small_wiki(), file_addresses("docs/wiki"))
    assert "[here](../../../src/app.py#L1-L9)" in files["modules/routing.md"].text


def test_without_an_address_a_citation_is_text():
    text = rendered(*small_wiki())["modules/routing.md"].text
    assert "It is here.\n" in text


def test_links_between_pages_are_relative():
    files = rendered(*small_wiki())
    assert "[routing](modules/routing.md#rules)" in files["overview.md"].text
    assert "[all](../overview.md)" in files["modules/routing.md"].text


def test_a_link_that_leads_nowhere_becomes_text_and_is_reported():
    pages = wiki(page("a.md", "A", "[x](page:b.md) [y](page:a.md#no) [z](source:src/app.py#L1-L2)"))
    made = rendered(*pages)["a.md"]
    assert made.unresolved == ("page:b.md", "page:a.md#no", "source:src/app.py#L1-L2")
    assert "x [y](a.md) z\n" in made.text
    assert matter(made.text)["status"] == "unresolved"


def test_ticks_with_a_backslash_begin_no_code():
    body = "[\\`a](page:a.md) and [b\\`](page:b.md) `c\\` [d](page:d.md) `[e](page:e.md)`"
    told = with_addresses(body, lambda link: link.path)
    assert told == "[\\`a](a.md) and [b\\`](b.md) `c\\` [d](d.md) `[e](page:e.md)`"


def test_links_in_code_stay_as_they_are():
    body = "`[a](page:b.md)` and ``[a](page:`b`.md)``\n\n~~~\n[a](page:b.md)\n~~~\n"
    assert with_addresses(body, lambda _: "x") == body
    assert list(body_links(body)) == []


def test_a_link_may_hold_brackets_and_quoted_characters():
    found = list(body_links("[a [b] \\] c](page:x%20y.md#z) and [d](<source:a (b).py#L3>)"))
    assert found == [BodyLink("page", "x y.md", "z"), BodyLink("source", "a (b).py", "L3")]
    assert found[1].lines == (3, 3)
    assert with_addresses("[a [b] \\] c](page:x.md).", lambda _: None) == "a [b] \\] c."


def test_a_heading_that_site_builders_call_otherwise_gets_its_anchor_where_a_link_names_it():
    pages = wiki(page("a.md", "A", "[x](page:a.md#q--a)\n\n## Q & A\n\n## Q & A\n"))
    text = rendered(*pages)["a.md"].text
    assert '<a id="q--a"></a>\n\n## Q & A\n\n## Q & A' in text
    assert [(one.forge, one.site) for one in heading_anchors("# `a`\n\n## a\n\n## [b](c) d\n")] == [
        ("a", "a"),
        ("a-1", "a_1"),
        ("b-d", "b-d"),
    ]


def test_the_index_lists_pages_by_kind_and_shows_hostile_titles_as_they_are():
    plan, pages = wiki(page("a.md", "[x](http://evil) <b>*y*"), title="T\n# U")
    text = rendered(plan, pages)["index.md"].text
    assert "* [\\[x\\](http://evil) &lt;b\\>\\*y\\*](a.md) - What it is for." in text
    assert "# T \\# U\n" in text
    assert escaped("a\nb") == "a b"


# Paths


@pytest.mark.parametrize(
    "path",
    [
        "../a.md",
        "/a.md",
        "a/../b.md",
        "a//b.md",
        ".git/a.md",
        "a.html",
        "a\\b.md",
        "c:a.md",
        "con.md",
        "a .md/b.md ",
        "x\n.md",
        ".md",
    ],
)
def test_a_path_that_could_leave_the_folder_is_refused(path):
    with pytest.raises(InvalidInput):
        check_page_paths([path])


@pytest.mark.parametrize("paths", [["a.md", "A.md"], ["index.md"], ["Log.md"], ["a.md", "a.md/b.md"]])
def test_paths_that_collide_are_refused(paths):
    with pytest.raises(InvalidInput):
        check_page_paths(paths)


# A person's text

YOURS = f"{KEEP}\nMine.\n<!-- treering:end -->"


def text_of(rules="Rules match paths."):
    return rendered(*small_wiki(rules))["modules/routing.md"].text


def with_region(text, after):
    return text.replace(after, f"{after}\n\n{YOURS}", 1)


def test_a_region_is_no_edit():
    assert block_digests(part(with_region(text_of(), "Rules match paths.")).written) == block_digests(text_of())


def test_a_region_stays_after_the_line_it_followed():
    lies = with_region(text_of(), "Rules match paths.")
    again = merged(text_of("Rules match paths.\n\nNew rules."), part(lies))
    assert f"Rules match paths.\n\n{YOURS}\n\nNew rules.\n" in again


def test_a_region_goes_to_the_end_of_its_section_where_its_line_is_gone():
    lies = with_region(text_of(), "Rules match paths.")
    assert f"Rules differ.\n\n{YOURS}\n\n## Errors" in merged(text_of("Rules differ."), part(lies))


def test_a_region_goes_to_the_end_of_the_page_where_its_section_is_gone():
    lies = with_region(text_of(), "Rules match paths.")
    assert merged("---\ntype: x\n---\n\n# Routing\n\nText.\n", part(lies)).endswith(f"Text.\n\n{YOURS}\n")


def test_regions_survive_any_number_of_rewritings_unchanged():
    lies = merged(text_of("B."), part(with_region(text_of("A."), "A.")))
    assert merged(text_of("B."), part(lies)) == lies
    assert block_digests(part(lies).written) == block_digests(text_of("B."))


def test_entries_of_the_front_matter_that_are_not_ours_stay():
    lies = text_of().replace("generated: true\n", "generated: true\ntags:\n  - mine\ncssclasses: wide\n")
    assert block_digests(part(lies).written) == block_digests(text_of())
    again = matter(merged(text_of("New."), part(lies)))
    assert (again["tags"], again["cssclasses"], again["title"]) == (["mine"], "wide", "Routing")


def test_what_is_written_never_begins_a_region():
    text = rendered(*wiki(page("a.md", "A", f"{KEEP}\n\nText.\n\n```\n{KEEP}\n```\n")))["a.md"].text
    assert not part(text).open_region
    assert part(text).written == text


def decided(rendered_files, manifest, known):
    return changes_for("Acme", list(rendered_files.values()), manifest, {k: KnownFile(v) for k, v in known.items()})


def first(rules="Rules match paths."):
    made = decided(rendered(*small_wiki(rules)), WikiManifest(), {})
    return read_manifest(made.manifest_text.encode(), place="m"), {k: v.encode() for k, v in made.texts.items()}


def test_nothing_is_to_be_done_the_second_time():
    manifest, lies = first()
    again = decided(rendered(*small_wiki()), manifest, lies)
    assert (again.manifest_text, again.texts, again.published.written) == (None, {}, ())
    assert again.published.unchanged == ("index.md", "log.md", "modules/routing.md", "overview.md")


def test_one_changed_page_is_written_with_the_log_and_nothing_else():
    manifest, lies = first()
    assert decided(rendered(*small_wiki("Other.")), manifest, lies).published.written == (
        "log.md",
        "modules/routing.md",
    )


def test_an_edit_of_a_person_is_a_conflict_and_stays():
    manifest, lies = first()
    lies["modules/routing.md"] = lies["modules/routing.md"].replace(b"Rules match", b"Rules never match")
    told = decided(rendered(*small_wiki("Other.")), manifest, lies).published
    assert (told.conflicts, told.written) == (("modules/routing.md",), ())


def test_other_line_ends_are_no_edit():
    manifest, lies = first()
    lies = {path: b"\xef\xbb\xbf" + data.replace(b"\n", b"\r\n") for path, data in lies.items()}
    assert decided(rendered(*small_wiki("Other.")), manifest, lies).published.conflicts == ()
    assert decided(rendered(*small_wiki()), manifest, lies).published.written == ()


def test_a_region_that_does_not_end_is_a_conflict():
    manifest, lies = first()
    lies["modules/routing.md"] += f"\n{KEEP}\n".encode()
    assert decided(rendered(*small_wiki("Other.")), manifest, lies).published.conflicts == ("modules/routing.md",)


def test_another_users_file_is_a_conflict():
    told = decided(rendered(*small_wiki()), WikiManifest(), {"overview.md": b"Mine."}).published
    assert told.conflicts == ("overview.md",)


def test_a_page_that_is_gone_goes_unless_a_person_wrote_in_it():
    manifest, lies = first()
    one = {path: text for path, text in rendered(*small_wiki()).items() if path != "modules/routing.md"}
    assert decided(one, manifest, lies).published.removed == ("modules/routing.md",)
    lies["modules/routing.md"] += f"\n{YOURS}\n".encode()
    told = decided(one, manifest, lies).published
    assert (told.removed, told.conflicts) == ((), ("modules/routing.md",))


@pytest.mark.parametrize(
    "data", [b"", b"[]", b"{", b'{"version": 1, "files": {"../x.md": {"digest": "0", "blocks": []}}}']
)
def test_a_manifest_that_is_none_is_refused(data):
    with pytest.raises(Corrupt):
        read_manifest(data, place="m")


def test_a_manifest_of_a_later_version_is_refused_as_such():
    with pytest.raises(InvalidInput, match="later version"):
        read_manifest(b'{"version": 2, "new": 1}', place="m")


def test_a_manifest_is_read_as_it_was_written():
    manifest, _ = first()
    assert read_manifest(manifest_text(manifest).encode(), place="m") == manifest
