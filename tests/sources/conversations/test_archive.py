import io
import zipfile

import pytest
from export_parts import chatgpt, packed, read

from treering.sources.reading.binary import Archive, Refused, ZipBounds, open_archive

SMALL = ZipBounds(max_members=3, max_bytes=10_000, max_ratio=20, ratio_from=1_000)


def opened(data: bytes, bounds: ZipBounds = SMALL) -> Archive:
    archive = open_archive(io.BytesIO(data), bounds)
    assert isinstance(archive, Archive)
    return archive


def test_members_are_read_into_memory() -> None:
    assert opened(packed({"a": b"words"})).read("a") == b"words"


def test_what_is_packed_too_tightly_is_refused() -> None:
    refused = opened(packed({"bomb": b"0" * 100_000})).read("bomb")
    assert isinstance(refused, Refused)
    assert "attack" in refused.why


def test_a_member_that_is_larger_than_it_says_is_refused() -> None:
    data = bytearray(packed({"bomb": b"0" * 100_000}))
    for mark, at in ((b"PK\x03\x04", 22), (b"PK\x01\x02", 24)):
        place = data.find(mark) + at
        data[place : place + 4] = (10).to_bytes(4, "little")
    found = opened(bytes(data)).read("bomb")
    assert isinstance(found, Refused) or len(found) <= 10


def test_all_members_together_are_bounded() -> None:
    archive = opened(packed({"a": bytes(range(250)) * 30, "b": bytes(range(250)) * 30}), ZipBounds(max_bytes=10_000))
    assert isinstance(archive.read("a"), bytes)
    assert isinstance(archive.read("b"), Refused)


def test_too_many_members_are_refused() -> None:
    many = packed({str(at): b"" for at in range(4)})
    assert isinstance(open_archive(io.BytesIO(many), SMALL), Refused)
    assert isinstance(open_archive(io.BytesIO(many), ZipBounds(max_directory_bytes=10)), Refused)


@pytest.mark.parametrize("name", ["../conversations.json", "/conversations.json", "a/../../conversations.json", "C:x"])
def test_names_that_lead_out_are_no_members(name: str) -> None:
    assert opened(packed({name: b"[]"})).names == []
    assert read(packed({name: [chatgpt(("user", "Hi"))]}), "export.zip").conversations == ()


def test_what_is_no_zip_file_or_locked_is_refused() -> None:
    assert isinstance(open_archive(io.BytesIO(b"PK\x03\x04 not really"), SMALL), Refused)
    locked = bytearray(packed({"a": b"words"}))
    locked[locked.find(b"PK\x01\x02") + 8] |= 1
    assert isinstance(opened(bytes(locked)).read("a"), Refused)


def test_folders_are_no_members() -> None:
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w") as archive:
        archive.mkdir("tea") if hasattr(archive, "mkdir") else archive.writestr("tea/", b"")
    assert opened(stream.getvalue()).names == []
