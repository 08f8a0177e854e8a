"""Sites that answer so that reading them would stop the run, or take its time or memory, are refused or cut."""

import gzip
from dataclasses import replace
from typing import Any

import pytest
from hostile_site import page, site

from treering.extensions.documents.fetching import Connector, Fetcher, is_public
from treering.extensions.documents.url import CrawlPace, UrlAdapter, parse_sitemap
from treering.extensions.documents.web_addresses import FetchRefused
from treering.ports.adapter import AlreadyRead, Failed, ReadLimits, Skipped, SourceDraft
from treering.verbs import catalog
from treering.verbs.envelope import EVERYTHING, Envelope

HERE = "127.0.0.1"
TEXT = "<article><h1>Waits</h1><p>Größere Pausen sind länger, and nobody waits for longer than that.</p></article>"


def adapter(*, resolved: tuple[str, ...] = (HERE,), pages: int = 500) -> UrlAdapter:
    """An adapter that reaches nothing but the loopback, and waits for nothing."""
    connector = Connector(
        allowed=lambda one: one in {HERE, "127.0.0.3"}, resolve=lambda _host, _port: resolved, connect_seconds=1
    )
    return UrlAdapter(fetcher=Fetcher(connector), pace=CrawlPace(pages=pages, pause=lambda _seconds: None))


def read(one: UrlAdapter, address: str, **limits: int) -> list[Any]:
    return list(one.read(address, known=AlreadyRead(), limits=ReadLimits(**limits), options={}))


def listing(*places: str) -> str:
    return "<urlset>" + "".join(f"<url><loc>{place}</loc></url>" for place in places) + "</urlset>"


@pytest.mark.parametrize("address", ["fec0::1", "192.88.99.1", "3fff::1"])
def test_addresses_of_sites_examples_and_relays_are_not_public(address: str) -> None:
    assert not is_public(address)


@pytest.mark.parametrize("encoding", ["no-such", "gbk", "punycode", "idna"])
def test_a_sitemap_in_an_odd_encoding_is_refused(encoding: str) -> None:
    with pytest.raises(FetchRefused, match="sitemap"):
        parse_sitemap(f'<?xml version="1.0" encoding="{encoding}"?><urlset/>'.encode())


def test_a_sitemap_of_elements_in_elements_is_refused_before_they_fill_the_memory() -> None:
    bomb = gzip.compress(b"<urlset>" + b"<a>" * 1_000_000)
    with site({"/s.xml.gz": page(bomb, "application/gzip")}) as (root, _):
        (found,) = read(adapter(), f"{root}/s.xml.gz")
    assert isinstance(found, Failed)
    assert "too deep nesting" in found.why


def test_an_address_without_end_in_a_sitemap_is_passed_over() -> None:
    assert parse_sitemap(listing("x" * 1_000_000, "\n" * 100_000, "/a").encode()).places == ("/a",)


@pytest.mark.parametrize("charset", ["punycode", "idna", "undefined", "unicode_escape", "no-such", "hex"])
def test_a_page_whose_server_names_no_encoding_of_text_is_read_all_the_same(charset: str) -> None:
    with site({"/p": page(TEXT, f"text/html; charset={charset}")}) as (root, _):
        (found,) = read(adapter(), f"{root}/p")
    assert isinstance(found, SourceDraft)
    assert "Größere Pausen" in found.segments[0].text


def test_a_page_is_read_in_the_encoding_that_its_server_names() -> None:
    with site({"/p": page(TEXT.encode("cp1252"), "text/html; charset=windows-1252")}) as (root, _):
        (found,) = read(adapter(), f"{root}/p")
    assert "Größere Pausen" in found.segments[0].text


def test_a_page_that_a_sitemap_lists_in_several_ways_is_read_once() -> None:
    answers: dict[str, Any] = {"/a": page(TEXT)}
    with site(answers) as (root, asked):
        places = [f"{root}/a", f"{root}/a#part", f"{root.replace('site', 'SITE')}/a", "/a"]
        answers["/s.xml"] = page(listing(*places), "text/xml")
        found = read(adapter(), f"{root}/s.xml")
    assert [type(one) for one in found] == [SourceDraft]
    assert [path for path, _ in asked].count("/a") == 1


def test_of_a_sitemap_no_more_is_told_than_the_limit_of_items() -> None:
    with site({"/s.xml": page(listing(*(f"/{at}" for at in range(50))), "text/xml")}) as (root, _):
        found = read(adapter(pages=0), f"{root}/s.xml", max_items=10)
    assert all(isinstance(one, Skipped) for one in found)
    assert len(found) == 11
    assert "max_items of 10" in found[-1].why


def test_next_address_is_tried_after_a_failure() -> None:
    with site({"/p": page(TEXT)}) as (root, _):
        (found,) = read(adapter(resolved=("127.0.0.3", HERE)), f"{root}/p")
    assert isinstance(found, SourceDraft)


def test_the_pages_of_a_sitemap_are_kept_once_and_archived_where_they_are_gone(space) -> None:
    answers: dict[str, Any] = {"/a": page(TEXT), "/b": page(TEXT.replace("Waits", "Rests"))}
    answers["/s.xml"] = page(listing("/a", "/b", "/a#twice"), "text/xml")
    engine = replace(space.engine, adapters={**space.engine.adapters, "url": adapter()})

    with site(answers) as (root, _):
        asked = Envelope(mode="url", input={"url": f"{root}/s.xml"})
        counts = [catalog.call(engine, "ingest", asked, granted=EVERYTHING).counts for _ in range(2)]
        del answers["/b"]
        counts.append(catalog.call(engine, "ingest", asked, granted=EVERYTHING).counts)
    assert counts == [{"created": 2}, {"unchanged": 2}, {"unchanged": 1, "removed": 1}]
