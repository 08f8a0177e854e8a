import codecs
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from treering import open as open_space
from treering.extensions.documents.html_text import read as read_page
from treering.extensions.documents.mail_reader import read as read_mail
from treering.extensions.documents.structured import NotebookFormat
from treering.ports.adapter import ReadLimits
from treering.ports.format import FileToRead
from treering.sources.reading.encodings import MAX_BYTES_TO_GUESS_FROM, Decoded, decode


@pytest.mark.parametrize(
    ("data", "encoding"),
    [
        ("naïve café".encode(), "utf-8"),
        (codecs.BOM_UTF8 + "naïve café".encode(), "utf-8"),
        (codecs.BOM_UTF16_LE + "naïve café".encode("utf-16-le"), "utf-16-le"),
        (codecs.BOM_UTF16_BE + "naïve café".encode("utf-16-be"), "utf-16-be"),
        (codecs.BOM_UTF32_LE + "naïve café".encode("utf-32-le"), "utf-32-le"),
    ],
)
def test_marks_and_utf8_decide_the_encoding(data: bytes, encoding: str) -> None:
    assert decode(data) == Decoded("naïve café", encoding)


@pytest.mark.parametrize(
    ("text", "encoding", "known_as"),
    [
        ("# -*- coding: shift_jis -*-\n# 在庫を数える\n", "shift_jis", "shift_jis"),
        ("#!/usr/bin/ruby\n# vim: set fileencoding=cp1251 :\n# Считает остатки\n", "cp1251", "cp1251"),
        ('<?xml version="1.0" encoding="windows-1251"?>\n<note>Насос</note>\n', "cp1251", "cp1251"),
        ("<?xml version='1.0' encoding='EUC-KR'?>\n<note>재고</note>\n", "euc-kr", "euc_kr"),
        ('<html><meta charset="koi8-r"><p>Ключи</p></html>', "koi8-r", "koi8-r"),
        ('<meta http-equiv="Content-Type" content="text/html; charset=big5"><p>庫存數量</p>', "big5", "big5"),
        ('@charset "iso-8859-2";\n.nová { content: "Příliš" }\n', "iso-8859-2", "iso8859-2"),
        ('<meta charset="iso-8859-1">It’s “fine” – €5', "cp1252", "cp1252"),
        ('<?xml version="1.0" encoding="gb2312"?><名>镕</名>', "gb18030", "gb18030"),
    ],
)
def test_a_declared_encoding_is_used(text: str, encoding: str, known_as: str) -> None:
    assert decode(text.encode(encoding)) == Decoded(text, known_as)


@pytest.mark.parametrize("named", ["no-such-charset", "unicode_escape", "punycode", "hex", "utf-8", "big5"])
def test_a_wrong_declaration_falls_back_to_the_bytes(named: str) -> None:
    text = f"# coding: {named}\nLe congélateur a été réparé en février, à côté.\n"
    assert decode(text.encode("cp1252")) == Decoded(text, "cp1252", guessed=True)


def test_valid_utf8_wins_over_another_declaration() -> None:
    text = '<meta charset="iso-8859-1"><p>Grüße aus dem Gerätehaus</p>'
    assert decode(text.encode()) == Decoded(text)


MIXED = [
    ("# Prices\n\nThe “oak” lamp costs €49 – don’t give a rebate.\n", "cp1252"),
    ("item;price\nŒuvre;€ 120\nNaïve “quote”;€ 7\n", "cp1252"),
    ("Die Schlüssel hängen beim Hausmeister Jürgen, Größe egal.\n", "latin-1"),
    ("¿Cuándo llegó el camión? El señor Núñez firmó mañana.\n", "latin-1"),
    ("Насос номер семь заменён, ключи у сторожа.\n", "cp1251"),
    ("Насос номер семь заменён, ключи у сторожа.\n", "koi8-r"),
    ("Příliš dlouhé čekání na dodávku náhradních dílů, kůň úpěl.\n", "cp1250"),
    ("Η αντλία αντικαταστάθηκε τον Απρίλιο.\n", "cp1253"),
    ("冷蔵庫の保守は毎月第二火曜日に行う。\n", "shift_jis"),
    ("冷蔵庫の保守は毎月第二火曜日に行う。\n", "euc_jp"),
    ("冰箱的维护在每月第二个星期二进行。请联系管理员。\n", "gb18030"),
    ("冰箱的維護在每月第二個星期二進行。請聯繫管理員。\n", "big5"),
    ("냉장고 점검은 매월 둘째 화요일에 한다.\n", "euc-kr"),
    ("Pump seven was replaced in April.\r\n", "utf-16-le"),
    ("Насос заменён в апреле.\r\n", "utf-16-be"),
    ("冷蔵庫の保守は毎月、火曜日に行う。\n", "utf-16-le"),
    ("\x1b is no escape here, in 冷蔵庫\n", "utf-8"),
    ("冷蔵庫の保守\n", "iso2022_jp"),
]


@pytest.mark.parametrize(("text", "encoding"), MIXED)
def test_undeclared_text_is_decoded_by_its_bytes(text: str, encoding: str) -> None:
    found = decode(text.encode(encoding))
    assert found is not None
    assert found.text == text


def test_a_guessed_encoding_is_reported() -> None:
    found = decode("déjà vu".encode("latin-1"))
    assert found == Decoded("déjà vu", "cp1252", guessed=True)
    assert found.warning() == "not valid utf-8: read as cp1252"


def test_damaged_utf8_is_read_and_the_damage_reported() -> None:
    found = decode("größer, schöner, weiter: été".encode() + b" \xff\xfe end")
    assert found is not None
    assert found.text.startswith("größer")
    assert found.replaced == 2
    assert "2 invalid sequences" in found.warning()


@pytest.mark.parametrize("joint", ["\n", " "])
def test_a_long_file_is_judged_by_its_beginning(joint: str) -> None:
    text = joint.join(["冷蔵庫の保守は毎月第二火曜日に行う。"] * (MAX_BYTES_TO_GUESS_FROM // 30))
    found = decode(text.encode("shift_jis"))
    assert found is not None
    assert found.text == text


@pytest.mark.parametrize(
    "data",
    [
        b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR",
        bytes(range(1, 256)) * 4,
        b"\x01\x02\x03\x04\x05" * 20,
        codecs.BOM_UTF16_LE + b"\x00\xd8" * 40,
        bytes(range(128, 256)) * 8,
        b"\0" * 64,
        b"\0\x01\0\x02\0\x03\0\x04" * 9,
        "Pump seven".encode("utf-16-le")[:-1],
    ],
)
def test_what_is_no_text_is_not_read_as_one(data: bytes) -> None:
    assert decode(data) is None


@settings(max_examples=100, deadline=None)
@given(st.binary(max_size=200))
def test_no_bytes_make_decoding_fail(data: bytes) -> None:
    found = decode(data)
    assert found is None or "\0" not in found.text


def test_an_empty_file_is_text() -> None:
    assert decode(b"") == Decoded("")


def test_formats_share_one_decoder() -> None:
    page = read_page("<p>The “oak” lamp costs €49 – don’t wait.</p>".encode("cp1252"))
    assert (page.units[0].text, page.encoding) == ("The “oak” lamp costs €49 – don’t wait.", "cp1252")
    mail = read_mail("Subject: Lamp\nFrom: a@example.com\n\nThe “oak” lamp – €49.\n".encode("cp1252"))
    assert "The “oak” lamp – €49." in mail.units[0].text
    cells = '{"cells": [{"cell_type": "markdown", "source": "The “oak” lamp"}]}'
    notebook = NotebookFormat().read(cells.encode("utf-16"), FileToRead("n.ipynb", ReadLimits()))
    assert notebook is not None
    assert notebook.segments[0].text == "The “oak” lamp"


def test_ingest_reports_the_encoding(tmp_path: Path) -> None:
    (tmp_path / "prices.md").write_bytes("# Prices\n\nThe “oak” lamp costs €49.\n".encode("cp1252"))
    (tmp_path / "conf.xml").write_bytes('<?xml version="1.0" encoding="cp1251"?>\n<n>Насос</n>\n'.encode("cp1251"))
    with open_space(":memory:") as space:
        report = space.ingest("path", input={"path": str(tmp_path)})
        encodings = {space.engine.ledger.get(item.source_id).metadata["encoding"] for item in report.items}
    assert report.warnings == (f"file:{tmp_path}/prices.md: not valid utf-8: read as cp1252",)
    assert encodings == {"cp1252", "cp1251"}
