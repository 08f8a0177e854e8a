import hashlib
from pathlib import Path

import pytest
import zstandard

from treering.core.errors import Corrupt
from treering.stores.rows import packing
from treering.stores.rows.packing import DICTIONARY, pack, pack_row, pack_sealed, unpack, unpack_sealed

EVENT = (
    '{"id":"aud:01m82hhy9k34vprwvkf9sp2s9y","seq":4,"event_type":"created","actor":"ada","channel":"agent",'
    '"target":"src:01m82hhy6cx3fzs1r59a10yc9g","before":null,"after":{"revision":1,"status":"active",'
    '"hash":"ac6092868d23c1af2710308f7775280d42739c90"},"reason":"Ingest what was given inline",'
    '"timestamp":"2026-11-22T21:10:52.394914Z","patch_id":"patch:01m82hhy7a8wxpv9e9p4amtzmv",'
    '"prev_hash":"08bb6c7b9aeb0062a397be0c31925d3f0bd6d038","hash":"b593eba2bb384053cd8076a7ed095223875dd23c"}'
)
PLACE = (
    '{"segment_id":"seg_9sdtd1332024q","locator":{"type":"section","heading":"","offset":0},'
    '"hash":"ee054da882d5a71299ef54f5695fa3350257b34a","position":0,"heading":"","role":"prose","gist":null}'
)


def with_dictionary(number: int) -> bytes:
    """Pack a text with a dictionary of this number in its frame."""
    known = Path(packing.__file__).with_name("rows_1.zdict").read_bytes()
    other = zstandard.ZstdCompressionDict(known[:4] + number.to_bytes(4, "little") + known[8:])
    return zstandard.ZstdCompressor(dict_data=other).compress(EVENT.encode())


@pytest.mark.parametrize("row", [EVENT, PLACE, "{}", "", '{"title":"Café 漢字"}'])
def test_a_packed_row_is_read_back(row):
    assert unpack(pack_row(row)) == row
    assert unpack_sealed(pack_sealed(row, name="job:1"), name="job:1") == row


def test_packed_rows_take_less_than_half():
    assert len(pack_row(EVENT)) < len(EVENT) / 2
    assert len(pack_row(PLACE)) < len(PLACE) / 2


def test_rows_that_earlier_versions_packed_are_read():
    assert unpack(EVENT) == EVENT
    assert unpack(zstandard.ZstdCompressor(level=3, write_checksum=True).compress(EVENT.encode())) == EVENT
    assert unpack(pack(EVENT)) == EVENT


def test_a_dictionary_never_changes():
    # What was packed with it is read with it for ever. A new dictionary is a new file with a number of its own.
    content = Path(packing.__file__).with_name("rows_1.zdict").read_bytes()
    assert hashlib.blake2b(content, digest_size=16).hexdigest() == "c347c5ca26e0f4148d175557cdb7de39"
    assert zstandard.get_frame_parameters(pack_row(EVENT)).dict_id == DICTIONARY + 1


@pytest.mark.parametrize("number", [1, DICTIONARY, DICTIONARY + 2, 2**31])
def test_row_with_an_unknown_dictionary_is_corrupt(number):
    with pytest.raises(Corrupt, match="does not decompress"):
        unpack(with_dictionary(number))


@pytest.mark.parametrize("at", [0, 5, 8, 20, -1])
def test_a_changed_byte_of_a_packed_row_is_damage(at):
    packed = bytearray(pack_row(EVENT))
    packed[at] ^= 0x10
    with pytest.raises(Corrupt):
        unpack(bytes(packed))
