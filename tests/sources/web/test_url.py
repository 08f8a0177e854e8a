"""Pages of the web: what is fetched becomes a source, and what is hostile is refused with its reason."""

import gzip
import ssl
import sys
import time
import zlib
from dataclasses import replace
from typing import Any

import pytest
from hostile_site import page, site
from hypothesis import given
from hypothesis import strategies as st

from document_files import docx_of, odp_of, ods_of, odt_of, pptx_of, xlsx_of
from treering.core.errors import InvalidInput
from treering.extensions.documents import html_text
from treering.extensions.documents.fetching import Connector, FetchBounds, Fetcher, is_public, system_trust
from treering.extensions.documents.url import CrawlPace, Politeness, UrlAdapter, parse_sitemap
from treering.extensions.documents.web_addresses import parse_address
from treering.ports.adapter import AlreadyRead, Failed, ReadLimits, Skipped, SourceDraft, Unchanged, Vanished

PAGE = """<html><head><title>Retries &amp; waits</title></head><body>
<nav><a href="/">Home</a> <a href="/about">About us</a></nav>
<article><h1>Retries</h1><p>A failed request is tried again three times, and each time it waits twice as long.
That is long enough for most servers to come back.</p>
<h2>Limits</h2><p>More than sixty seconds are never waited, since nobody waits that long for a page.</p></article>
<footer>All rights reserved</footer></body></html>"""
HERE = "127.0.0.1"


def adapter(
    *, places: dict[str, list[str]] | None = None, pauses: list[float] | None = None, **bounds: Any
) -> UrlAdapter:
    """An adapter that may reach the loopback, where `site.test` is; other hosts are where `places` says."""
    known = {"site.test": [HERE], **(places or {})}
    connector = Connector(
        allowed=lambda address: address == HERE or is_public(address), resolve=lambda host, _port: known[host]
    )
    pace = CrawlPace(pause=(pauses if pauses is not None else []).append)
    return UrlAdapter(fetcher=Fetcher(connector, replace(FetchBounds(), **bounds)), pace=pace)


def read(one: UrlAdapter, address: str, known: AlreadyRead | None = None) -> list[Any]:
    return list(one.read(address, known=known or AlreadyRead(), limits=ReadLimits(), options={}))


def refused(answer, **bounds: Any) -> str:
    """Return why the page of a server is refused."""
    with site({"/p": answer}) as (root, _):
        (found,) = read(adapter(**bounds), f"{root}/p")
    assert isinstance(found, Failed)
    return found.why


def test_a_page_is_a_source_with_its_headings_and_without_its_navigation() -> None:
    with site({"/p": page(PAGE, ETag='"v1"')}) as (root, asked):
        (source,) = read(adapter(), f"{root}/p#limits")
    assert isinstance(source, SourceDraft)
    assert (source.kind, source.origin, source.title) == ("web", f"{root}/p", "Retries & waits")
    text = "\n".join(segment.text for segment in source.segments)
    assert "tried again three times" in text
    assert "About us" not in text
    assert [segment.heading for segment in source.segments] == ["Retries", "Retries > Limits"]
    assert asked[0][1]["User-Agent"].startswith("Treering/")


def test_without_the_extra_a_page_is_read_without_what_its_elements_call_navigation(monkeypatch) -> None:
    monkeypatch.setitem(sys.modules, "trafilatura", None)
    found = html_text.read(PAGE.encode())
    assert found.title == "Retries & waits"
    assert [unit.heading for unit in found.units] == ["Retries", "Retries > Limits"]
    text = "\n".join(unit.text for unit in found.units)
    assert "About us" not in text
    assert "All rights reserved" not in text


def test_what_a_browser_shows_is_told_only_of_a_page_with_an_address() -> None:
    assert not html_text.read(PAGE.encode()).shown
    assert "Home" in html_text.read_linked(PAGE.encode()).shown
    assert "Home" in html_text.read(f"<!-- saved from url=(0020)https://x.org/retries -->{PAGE}".encode()).shown


def test_code_inside_a_sentence_stays_in_it_and_a_block_of_code_stands_alone() -> None:
    said = "The binary that <code>cargo  run</code>, or <code>cargo&#32;r</code>, starts is told in the manifest. " * 9
    code = "<pre><code>cargo run --bin a\ncargo test</code></pre>"
    text = f"<body><nav>menu</nav><article><h1>Runs</h1><p>{said}</p>{code}<p>{said}</p></article></body>"
    (unit,) = html_text.read(text.encode()).units
    first, block, last = unit.text.split("\n\n")
    assert first == last
    assert first.startswith("The binary that cargo run, or cargo r, starts is told in the manifest. The binary")
    assert block == "cargo run --bin a\ncargo test"


def test_a_short_page_keeps_its_headings_and_not_its_navigation() -> None:
    text = "<body><nav>menu</nav><article><h1>Retries</h1><p>A request is tried three times.</p></article></body>"
    (unit,) = html_text.read(text.encode()).units
    assert (unit.heading, unit.text) == ("Retries", "A request is tried three times.")


def test_what_a_server_says_is_the_same_is_not_fetched_again() -> None:
    def answer(handler) -> None:
        known = handler.headers.get("If-None-Match") == '"v1"'
        (page(b"", status=304) if known else page(PAGE, ETag='"v1"'))(handler)

    with site({"/p": answer}) as (root, asked):
        (first,) = read(adapter(), f"{root}/p")
        known = AlreadyRead({first.origin: first.fingerprint})
        assert read(adapter(), f"{root}/p", known) == [Unchanged(first.origin)]
    assert len(asked) == 2


def test_the_same_bytes_are_unchanged_though_the_server_says_nothing_of_it() -> None:
    with site({"/p": page(PAGE)}) as (root, _):
        (first,) = read(adapter(), f"{root}/p")
        assert read(adapter(), f"{root}/p", AlreadyRead({first.origin: first.fingerprint})) == [Unchanged(first.origin)]


def test_a_known_page_that_is_gone_has_vanished_and_an_unknown_one_failed() -> None:
    with site({}) as (root, _):
        assert read(adapter(), f"{root}/p", AlreadyRead({f"{root}/p": "x"})) == [Vanished(f"{root}/p")]
        (failed,) = read(adapter(), f"{root}/p")
    assert "404" in failed.why


def test_a_redirect_is_followed_and_the_source_keeps_the_address_requested() -> None:
    with site({"/old": page("", status=301, Location="/new"), "/new": page(PAGE)}) as (root, _):
        (source,) = read(adapter(), f"{root}/old")
    assert (source.origin, source.payload["url"]) == (f"{root}/old", f"{root}/new")


@pytest.mark.parametrize(
    "inner",
    ["127.0.0.2", "10.0.0.1", "172.16.3.4", "192.168.1.1", "169.254.169.254", "100.64.0.1", "0.0.0.0", "224.0.0.1",
     "::1", "fe80::1", "fc00::1", "::ffff:10.0.0.1", "64:ff9b::a00:1", "2002:a00:1::", "255.255.255.255", "::"],
)  # fmt: skip
def test_a_redirect_to_an_address_of_a_private_network_is_refused(inner: str) -> None:
    with site({"/p": page("", status=302, Location="http://inner.test/secret")}) as (root, asked):
        (found,) = read(adapter(places={"inner.test": [inner]}), f"{root}/p")
    assert "not on the public internet" in found.why
    assert len(asked) == 1


def test_a_host_with_one_private_address_among_public_ones_is_refused() -> None:
    (found,) = read(adapter(places={"two.test": ["93.184.216.34", "10.0.0.1"]}), "http://two.test/")
    assert "10.0.0.1" in found.why


def test_a_name_whose_address_changes_is_resolved_once_and_used_as_it_was_checked() -> None:
    answers = iter([[HERE], ["10.0.0.1"], ["10.0.0.1"]])
    connector = Connector(allowed=lambda address: address == HERE, resolve=lambda _host, _port: next(answers))
    with site({"/p": page(PAGE)}) as (root, _):
        (found,) = read(UrlAdapter(fetcher=Fetcher(connector)), f"{root}/p")
        assert isinstance(found, SourceDraft)
        (again,) = read(UrlAdapter(fetcher=Fetcher(connector)), f"{root}/p")
    assert "not on the public internet" in again.why


def test_the_certificates_of_the_system_are_read_by_the_first_secure_connection_alone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    made = []
    make = ssl.create_default_context
    monkeypatch.setattr(ssl, "create_default_context", lambda: made.append(make()) or made[-1])
    system_trust.cache_clear()
    with site({"/p": page(PAGE)}) as (root, _):
        one = adapter()
        (plain,) = read(one, f"{root}/p")
        assert isinstance(plain, SourceDraft)
        assert not made
        secure = root.replace("http:", "https:")
        (first,), (second,) = read(one, f"{secure}/p"), read(one, f"{secure}/q")
    assert isinstance(first, Failed)
    assert isinstance(second, Failed)
    assert len(made) == 1


def test_redirects_without_end_are_refused() -> None:
    assert "more than 5 times" in refused(page("", status=302, Location="/p"))


@pytest.mark.parametrize(
    "place", ["file:///etc/passwd", "ftp://site.test/x", "http://", "gopher://x", "http://u:p@site.test/"]
)
def test_a_redirect_to_something_else_than_a_page_is_refused(place: str) -> None:
    assert refused(page("", status=302, Location=place))


def test_a_body_without_end_is_cut_off() -> None:
    def endless(handler) -> None:
        handler.send_response(200)
        handler.send_header("Content-Type", "text/html")
        handler.end_headers()
        while True:
            handler.wfile.write(b"x" * 65_536)

    assert "larger than 300,000 bytes" in refused(endless, max_bytes=300_000)


@pytest.mark.parametrize("before", [b"", b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: 999\r\n\r\n"])
def test_a_server_that_drips_is_left(before: bytes) -> None:
    def slow(handler) -> None:
        handler.wfile.write(before)
        for _ in range(400):
            handler.wfile.write(b"H")
            time.sleep(0.05)

    assert "longer than 0.5 s" in refused(slow, seconds=0.5)


@pytest.mark.parametrize("packed", ["gzip", "deflate"])
def test_a_packed_bomb_is_refused(packed: str) -> None:
    bomb = b"\0" * 30_000_000
    data = gzip.compress(bomb) if packed == "gzip" else zlib.compress(bomb)
    assert "when decompressed" in refused(page(data, Content_Encoding=packed))


def test_a_packed_page_is_read() -> None:
    with site({"/p": page(gzip.compress(PAGE.encode()), Content_Encoding="gzip")}) as (root, _):
        assert isinstance(read(adapter(), f"{root}/p")[0], SourceDraft)


@pytest.mark.parametrize(
    ("answer", "why"),
    [
        (page(b"\x89PNG", "image/png"), "image/png"),
        (page(PAGE, "application/octet-stream"), "octet-stream"),
        (page(PAGE, Content_Encoding="br"), "unsupported compression"),
        (page(b"no gzip", Content_Encoding="gzip"), "damaged"),
        (page(gzip.compress(PAGE.encode())[:-20], Content_Encoding="gzip"), "too early"),
        (page(gzip.compress(b"<p>a") + gzip.compress(b"b"), Content_Encoding="gzip"), "more than one part"),
        (page(PAGE, status=500), "500"),
        (page(PAGE, status=401), "401"),
        (lambda handler: handler.wfile.write(b"SSH-2.0-x\r\n"), "not valid HTTP"),
        (lambda handler: None, "not valid HTTP"),
    ],
)
def test_an_answer_that_is_no_page_is_refused_with_its_reason(answer, why: str) -> None:
    assert why in refused(answer)


def test_a_body_that_is_shorter_than_was_announced_is_refused() -> None:
    assert refused(page(PAGE, Content_Length="100000"))


def test_office_files_of_every_kind_are_read_from_an_address() -> None:
    opendocument, microsoft = "application/vnd.oasis.opendocument", "application/vnd.openxmlformats-officedocument"
    files = {
        f"{opendocument}.text": odt_of("Wait a minute."),
        f"{opendocument}.spreadsheet": ods_of("Waits", [["wait", "1 minute"]]),
        f"{opendocument}.presentation": odp_of(("Waits", "Wait a minute.")),
        f"{microsoft}.wordprocessingml.document": docx_of("Wait a minute."),
        f"{microsoft}.spreadsheetml.sheet": xlsx_of(Waits=[["wait", "1 minute"]]),
        f"{microsoft}.presentationml.presentation": pptx_of(("Waits", "Wait a minute.", "")),
    }
    for kind, data in files.items():
        with site({"/download": page(data, kind)}) as (root, _):
            (found,) = read(adapter(), f"{root}/download")
        assert isinstance(found, SourceDraft), (kind, found)
        assert any("minute" in segment.text for segment in found.segments), kind


@pytest.mark.parametrize(
    "address",
    ["ftp://x.org", "file:///etc/passwd", "https://", "x.org", "https://ada:secret@x.org/", "https://x.org/a b",
     "https://x.org/?key=AKIAIOSFODNN7EXAMPLE", "https://x.org:99999/", "https://[::1", "https://x.org/" + "a" * 3_000],
)  # fmt: skip
def test_an_address_of_another_kind_is_refused_before_anything_is_asked(address: str) -> None:
    with pytest.raises(InvalidInput):
        read(adapter(), address)


@pytest.mark.parametrize(
    "asked",
    ["?api_key=sk-abcdef0123456789abcdef0123456789", "?a=1&X-Amz-Date=1&X-Amz-Signature=fe5f80f77d5fa3beca038a",
     "?X-Goog-Signature=247a2aa45f", "?sv=2022-11-02&sr=b&sig=J0%2BXkT2k9Q%3D", "?Expires=1&Signature=AbC~d",
     "?apikey=0123456789abcdef", "?subscription-key=00ff", "?client_secret=hunter2hunter2", "?API%2DKEY=sk-1",
     "?password=p4", "?next=https%3A%2F%2Fx.org%2F%3Faccess_token%3Dq1", "?key=0f1e2d3c4b5a69788796a5b4",
     "?token=a1b2c3d4e5f6a7b8", ";jsessionid=1A2B", "/#access_token=q1w2"],
)  # fmt: skip
def test_an_address_that_holds_a_key_or_a_signature_is_refused_and_its_value_not_shown(asked: str) -> None:
    value = asked.rpartition("=")[2]
    with pytest.raises(InvalidInput) as refusal:
        read(adapter(), f"https://x.org/{asked}")
    assert value not in str(refusal.value)


@pytest.mark.parametrize(
    "asked",
    ["?q=api+key&page=2", "?page_token=4", "?key=introduction", "?id=0f1e2d3c4b5a6978", "?t=90", "?v=2#signature",
     "?code=404", "?api_key=YOUR_API_KEY", "?hash=", "?token_type=bearer"],
)  # fmt: skip
def test_an_address_with_parameters_that_are_no_secret_is_taken(asked: str) -> None:
    assert parse_address(f"https://x.org/{asked}").text.startswith("https://x.org/?")


def test_an_address_is_always_written_the_same() -> None:
    assert parse_address(" HTTPS://Example.ORG:443/a%20b?q=ü#part ").text == "https://example.org/a%20b?q=%C3%BC"
    assert parse_address("http://bücher.example").text == "http://xn--bcher-kva.example/"


@given(st.text(max_size=60))
def test_any_text_is_an_address_or_refused(text: str) -> None:
    try:
        address = parse_address(f"https://{text}")
    except InvalidInput:
        return
    assert parse_address(address.text) == address


def sitemap(*places: str, index: bool = False) -> str:
    outer, inner = ("sitemapindex", "sitemap") if index else ("urlset", "url")
    listed = "".join(f"<{inner}><loc>{place}</loc></{inner}>" for place in places)
    return f'<?xml version="1.0"?><{outer} xmlns="http://www.sitemaps.org/schemas/sitemap/0.9">{listed}</{outer}>'


def test_a_sitemap_gives_the_pages_of_its_host_slowly_and_only_those_that_robots_txt_lets() -> None:
    answers: dict[str, Any] = {
        "/robots.txt": page("User-agent: *\nDisallow: /private\nCrawl-delay: 3", "text/plain"),
        "/a": page(PAGE),
        "/broken": page(PAGE, status=500),
    }
    pauses: list[float] = []
    with site(answers) as (root, asked):
        places = [f"{root}/a", f"{root}/private/x", "http://elsewhere.test/", f"{root}/broken"]
        answers["/sitemap.xml"] = page(sitemap(*places), "application/xml")
        found = read(adapter(pauses=pauses), f"{root}/sitemap.xml")
    assert [(type(one), one.origin.removeprefix(root)) for one in found] == [
        (SourceDraft, "/a"),
        (Skipped, "/private/x"),
        (Skipped, "http://elsewhere.test/"),
        (Failed, "/broken"),
    ]
    assert pauses == [3.0, 3.0]
    assert "/private/x" not in [path for path, _ in asked]


def test_a_list_gives_its_pages_in_order_and_a_bad_line_is_a_failed_item_with_its_number() -> None:
    answers: dict[str, Any] = {
        "/robots.txt": page("User-agent: *\nDisallow: /private\nCrawl-delay: 3", "text/plain"),
        "/a": page(PAGE),
        "/b": page(PAGE.replace("three", "five")),
    }
    pauses: list[float] = []
    with site(answers) as (root, asked):
        answers["/s.xml"] = page(sitemap(f"{root}/a"), "text/xml")
        lines = [
            "\ufeff# what to read",
            "",
            f"  {root}/a\r",
            "not an address",
            f"{root}/private/x",
            "https://ada:pw@x.org/",
        ]
        lines += [f"{root}/a#part", f"{root}/s.xml", f"{root}/gone", f"{root}/b"]
        found = read(adapter(pauses=pauses), "\n".join(lines))
    assert [(type(one), one.origin.removeprefix(root)) for one in found] == [
        (SourceDraft, "/a"),
        (Failed, "line 4"),
        (Skipped, "/private/x"),
        (Failed, "line 6"),
        (Failed, "/s.xml"),
        (Failed, "/gone"),
        (SourceDraft, "/b"),
    ]
    assert "ada:pw" not in repr(found)
    assert "it is a sitemap" in found[4].why
    assert pauses == [3.0] * 4
    assert [path for path, _ in asked].count("/robots.txt") == 1


def test_each_host_of_a_list_is_asked_for_its_robots_txt() -> None:
    answers: dict[str, Any] = {"/robots.txt": page("User-agent: *\nDisallow: /", "text/plain"), "/a": page(PAGE)}
    with site({"/a": page(PAGE)}) as (free, _), site(answers) as (closed, _):
        found = read(adapter(), f"{closed}/a\n{free}/a\n")
    assert [type(one) for one in found] == [Skipped, SourceDraft]


def test_a_list_is_read_as_far_as_its_limits_go() -> None:
    answers: dict[str, Any] = {"/a": page(PAGE), "/b": page(PAGE), "/c": page(PAGE)}
    one = replace(adapter(), pace=CrawlPace(pages=1, pause=lambda _: None))
    with site(answers) as (root, asked):
        found = read(one, f"{root}/a\n{root}/b\n")
        paths = [path for path, _ in asked]
    assert [type(one) for one in found] == [SourceDraft, Skipped]
    assert "/b" not in paths


@pytest.mark.parametrize("text", ["\n", "# nothing\n", "x.org\nfile:///etc/passwd\n"])
def test_a_list_without_an_address_is_refused(text: str) -> None:
    with pytest.raises(InvalidInput, match="contains no addresses"):
        read(adapter(), text)


def test_a_list_through_the_verb_is_kept_updated_and_archived_page_by_page(space) -> None:
    answers: dict[str, Any] = {"/a": page(PAGE), "/b": page(PAGE)}
    engine = replace(space.engine, adapters={**space.engine.adapters, "url": adapter()})
    with site(answers) as (root, _):
        text = f"{root}/a\n{root}/b\nx\n"
        first = ingest(engine, addresses=text)
        assert first.counts == {"created": 2, "failed": 1}
        assert [(one.origin, one.outcome) for one in first.items if one.outcome == "failed"] == [("line 3", "failed")]
        del answers["/a"]
        assert ingest(engine, addresses=text).counts == {"removed": 1, "unchanged": 1, "failed": 1}
        job = space.engine.jobs.recent(1, scope="/")
    assert next(iter(job))["target"] == "a list of addresses"


@pytest.mark.parametrize("given", [{}, {"url": "https://x.org", "addresses": "https://x.org"}])
def test_either_an_address_or_a_list_is_given(space, given) -> None:
    with pytest.raises(InvalidInput, match="either"):
        ingest(space.engine, **given)


@pytest.mark.parametrize(("status", "kind"), [(403, SourceDraft), (404, SourceDraft), (500, Skipped), (503, Skipped)])
def test_a_site_that_cannot_tell_what_it_asks_is_left_alone(status: int, kind: type) -> None:
    answers: dict[str, Any] = {"/a": page(PAGE), "/robots.txt": page("", status=status)}
    with site(answers) as (root, _):
        answers["/s.xml"] = page(sitemap(f"{root}/a"), "text/xml")
        assert [type(one) for one in read(adapter(), f"{root}/s.xml")] == [kind]


def test_the_signature_of_a_redirect_is_not_kept() -> None:
    with site({"/p": page("", status=302, Location="/q?token=abc"), "/q?token=abc": page(PAGE)}) as (root, _):
        (source,) = read(adapter(), f"{root}/p")
    assert source.payload["url"] == f"{root}/q"


def test_an_index_of_sitemaps_is_followed_one_level() -> None:
    answers: dict[str, Any] = {"/a": page(PAGE)}
    with site(answers) as (root, _):
        answers["/i.xml"] = page(sitemap(f"{root}/s.xml.gz", f"{root}/i.xml", index=True), "text/xml")
        answers["/s.xml.gz"] = page(gzip.compress(sitemap(f"{root}/a").encode()), "application/gzip")
        found = read(adapter(), f"{root}/i.xml")
    assert [type(one) for one in found] == [SourceDraft, Failed]


def test_a_sitemap_with_entities_is_refused() -> None:
    bomb = '<!DOCTYPE urlset [<!ENTITY a "aaaa">]><urlset><url><loc>&a;</loc></url></urlset>'
    assert "DOCTYPE" in refused(page(bomb, "text/xml"))


@given(st.binary(max_size=200))
def test_any_bytes_after_a_sitemap_begins_are_read_or_refused(data: bytes) -> None:
    from treering.extensions.documents.web_addresses import FetchRefused

    try:
        parse_sitemap(b"<urlset>" + data)
    except FetchRefused:
        return


def test_the_usual_adapter_reaches_no_server_of_this_machine() -> None:
    with site({"/p": page(PAGE)}) as (root, asked):
        (found,) = read(UrlAdapter(), root.replace("site.test", "127.0.0.1") + "/p")
        (named,) = read(UrlAdapter(), root.replace("site.test", "localhost") + "/p")
    assert "not on the public internet" in found.why
    assert "not on the public internet" in named.why
    assert asked == []


def test_what_is_kept_through_the_verb_is_updated_and_archived(space) -> None:
    answers: dict[str, Any] = {"/p": page(PAGE)}
    adapters = {**space.engine.adapters, "url": adapter()}
    engine = replace(space.engine, adapters=adapters)
    with site(answers) as (root, _):
        first = ingest(engine, url=f"{root}/p")
        assert (first.counts, ingest(engine, url=f"{root}/p").counts) == ({"created": 1}, {"unchanged": 1})
        answers["/p"] = page(PAGE.replace("three", "five"))
        assert ingest(engine, url=f"{root}/p").counts == {"updated": 1}
        del answers["/p"]
        gone = ingest(engine, url=f"{root}/p")
    assert gone.counts == {"removed": 1}


def ingest(engine, **given: str):
    from treering.verbs import catalog
    from treering.verbs.envelope import EVERYTHING, Envelope

    return catalog.call(engine, "ingest", Envelope(mode="url", input=given), granted=EVERYTHING)


def test_only_who_may_reach_the_network_may_ask_for_an_address(space) -> None:
    from treering.core.errors import Denied
    from treering.extensions.mcp.listing import GRANTED
    from treering.verbs import catalog
    from treering.verbs.envelope import Envelope

    with pytest.raises(Denied, match="reads from the network"):
        catalog.call(
            space.engine, "ingest", Envelope(mode="url", input={"url": "https://example.org"}), granted=GRANTED
        )


@pytest.mark.parametrize(
    "charset", ["idna", "undefined", "utf-7", "unicode_escape", "punycode", "a\0b", "zlib", "none"]
)
def test_a_page_in_an_encoding_that_no_page_has_is_read_as_it_is(charset: str) -> None:
    with site({"/p": page(b"hello +2AA- \\ud800 world", f"text/plain; charset={charset}")}) as (root, _):
        (found,) = read(adapter(), f"{root}/p")
    assert "hello" in found.segments[0].text


@pytest.mark.parametrize("encoding", ["utf-7", "idna", "shift_jis", "nonsense", "undefined"])
def test_a_sitemap_in_an_encoding_that_is_not_read_is_refused(encoding: str) -> None:
    data = f'<?xml version="1.0" encoding="{encoding}"?><urlset><url><loc>http://x.org/</loc></url></urlset>'
    assert "encoding" in refused(page(data, "text/xml"))


@pytest.mark.parametrize("line", ["Crawl-delay: ²", "Crawl-delay: " + "9" * 5_000, "Disallow: http://[x"])
def test_a_line_of_robots_txt_that_cannot_be_read_hides_no_other(line: str) -> None:
    rules = Politeness.of(f"\ufeffUser-agent: *\n{line}\nDisallow: /private", "Treering")
    assert (rules.allows("https://x.org/private/a"), rules.allows("https://x.org/a")) == (False, True)
    assert rules.delay(least=1, most=30) == 1


@pytest.mark.parametrize(
    ("rules", "path", "allowed"),
    [
        ("Disallow: /a\nAllow: /a/b", "/a/b", True),
        ("Allow: /\nDisallow: /private", "/private", False),
        ("Disallow: /*.pdf$", "/x.pdf", False),
        ("Disallow: /*.pdf$", "/x.pdf?y", True),
        ("\nDisallow: /a", "/a", False),
        ("Disallow: /a\n\nUser-agent: *\nDisallow: /b", "/b", False),
    ],
)
def test_the_longest_rule_of_robots_txt_counts_and_stars_represent_anything(
    rules: str, path: str, allowed: bool
) -> None:
    assert Politeness.of(f"User-agent: *\n{rules}", "Treering/1").allows(f"https://x.org{path}") is allowed


def test_a_delay_that_never_ends_is_cut() -> None:
    assert Politeness.of("User-agent: *\nCrawl-delay: " + "9" * 300, "Treering").delay(least=1, most=30) == 30


def test_robots_txt_is_asked_for_so_many_addresses_and_no_more() -> None:
    answers: dict[str, Any] = {"/robots.txt": page("User-agent: *\nDisallow: /private", "text/plain")}
    one = replace(adapter(), pace=CrawlPace(looked_at=2, pause=lambda _: None))
    with site(answers) as (root, _):
        answers["/p"] = page(sitemap(*(f"{root}/private/{at}" for at in range(3))), "text/xml")
        found = read(one, f"{root}/p")
    assert ["limit" in skipped.why for skipped in found] == [False, False, True]


@pytest.mark.parametrize("address", ["192.0.0.192", "168.63.129.16", "192.88.99.1", "fec0::1", "3fff::1"])
def test_a_service_of_a_cloud_and_an_old_local_address_are_not_public(address: str) -> None:
    assert not is_public(address)
