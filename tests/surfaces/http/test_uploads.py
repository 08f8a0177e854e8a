"""Files that are sent over HTTP: read like files of a folder, bounded, and never a way to files of the server."""

import gzip
import io
import random
import stat
import tarfile
import zipfile

import pytest
import zstandard
from key_parts import guarded
from rest_parts import running

from treering.extensions.server.callers import Bounds
from treering.ports.stores import KeyLimits

UPLOAD = "/v1/wiki/ingest/upload"
BYTES = {"Content-Type": "application/octet-stream"}
BEES = b"# Bees\n\nBees make honey."
WASPS = b"# Wasps\n\nWasps do not."


def send(client, name, data, **query):
    headers = {**BYTES, **query.pop("headers", {})}
    return client.post(UPLOAD, params={"name": name, **query}, content=data, headers=headers)


def outcomes(answer):
    assert answer.status_code == 200, answer.text
    return {item["origin"]: item["outcome"] for item in answer.json()["items"]}


def zipped(files):
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in files.items():
            archive.writestr(name, data)
    return packed.getvalue()


def tarred(files, mode="w:gz", *links):
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode=mode) as archive:
        for name, data in files.items():
            member = tarfile.TarInfo(name)
            member.size = len(data)
            archive.addfile(member, io.BytesIO(data))
        for name, kind, target in links:
            member = tarfile.TarInfo(name)
            member.type, member.linkname = kind, target
            archive.addfile(member)
    return packed.getvalue()


def zstd_tarred(files, *links):
    """Pack a tar file as zstd does with several frames, with one between them that holds nothing of it."""
    plain = tarred(files, "w", *links)
    first, rest = (zstandard.compress(part) for part in (plain[:700], plain[700:]))
    return first + b"\x50\x2a\x4d\x18" + (3).to_bytes(4, "little") + b"abc" + rest


def found(client, words):
    asked = {"mode": "search", "input": {"text": words}}
    return [hit["origin"] for hit in client.post("/v1/wiki/query", json=asked).json()["hits"]]


def nothing_kept(client):
    return client.post("/v1/wiki/query", json={"mode": "recent"}).json().get("changes", []) == []


def refused(answer):
    assert answer.status_code == 422, answer.text
    return answer.json()["message"]


def test_a_file_that_is_sent_is_read_and_the_same_again_changes_nothing(tmp_path):
    with running(tmp_path) as client:
        first, again = send(client, "bees.md", BEES), send(client, "bees.md", BEES)
        changed = send(client, "bees.md", BEES + b" And wax.")
    assert outcomes(first) == {"upload:bees.md": "created"}
    assert again.json()["counts"] == {"unchanged": 1}
    assert outcomes(changed) == {"upload:bees.md": "updated"}


@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    ("name", "pack"),
    [
        ("notes.zip", zipped),
        ("notes.tar", lambda files: tarred(files, "w")),
        ("notes.tar.gz", tarred),
        ("NOTES.TGZ", tarred),
        ("notes.tar.zst", zstd_tarred),
    ],
)
def test_the_files_of_an_archive_are_read_one_by_one_and_one_that_goes_is_gone(tmp_path, name, pack):
    with running(tmp_path) as client:
        first = send(client, name, pack({"a/bees.md": BEES, "wasps.md": WASPS}))
        again = send(client, name, pack({"a/bees.md": BEES}))
        hits = client.post("/v1/wiki/query", json={"mode": "search", "input": {"text": "honey"}}).json()["hits"]
    assert outcomes(first) == {f"upload:{name}#a/bees.md": "created", f"upload:{name}#wasps.md": "created"}
    assert again.json()["counts"] == {"unchanged": 1, "removed": 1}
    assert "Bees make honey." in hits[0]["text"]


@pytest.mark.sampled(3)
@pytest.mark.parametrize("member", ["../bees.md", "/etc/bees.md", "a/../../bees.md"])
@pytest.mark.parametrize(("name", "pack"), [("x.zip", zipped), ("x.tar.gz", tarred), ("x.tar.zst", zstd_tarred)])
def test_an_archive_with_a_name_that_leads_out_is_refused_as_a_whole(tmp_path, name, pack, member):
    with running(tmp_path) as client:
        send(client, "wasps.md", WASPS)
        before = client.post("/v1/wiki/query", json={"mode": "recent"}).json()["changes"]
        assert "points outside" in refused(send(client, name, pack({"ok.md": BEES, member: BEES})))
        assert client.post("/v1/wiki/query", json={"mode": "recent"}).json()["changes"] == before


def test_links_and_devices_of_an_archive_are_skipped(tmp_path):
    links = [
        ("hard.md", tarfile.LNKTYPE, "bees.md"),
        ("soft.md", tarfile.SYMTYPE, "bees.md"),
        ("null", tarfile.CHRTYPE, ""),
        ("pipe", tarfile.FIFOTYPE, ""),
    ]
    info = zipfile.ZipInfo("soft.md")
    info.create_system, info.external_attr = 3, (stat.S_IFLNK | 0o777) << 16
    with running(tmp_path) as client:
        in_tar = outcomes(send(client, "x.tar.gz", tarred({"bees.md": BEES}, "w:gz", *links)))
        in_zip = outcomes(send(client, "x.zip", zipped({"bees.md": BEES, info: "bees.md"})))
    skipped = {f"upload:x.tar.gz#{name}": "skipped" for name, _, _ in links}
    assert in_tar == {**skipped, "upload:x.tar.gz#bees.md": "created"}
    assert in_zip == {"upload:x.zip#bees.md": "created", "upload:x.zip#soft.md": "skipped"}


@pytest.mark.parametrize(("name", "pack"), [("x.zip", zipped), ("x.tgz", tarred), ("x.tzst", zstd_tarred)])
def test_a_file_in_an_archive_whose_name_is_no_path_is_skipped_and_reported(tmp_path, name, pack):
    with running(tmp_path) as client:
        told = outcomes(send(client, name, pack({"bees.md": BEES, "was\x1b[31mps.md": WASPS, "a\\b.md": WASPS})))
    assert sorted(told.values()) == ["created", "skipped", "skipped"]
    assert not any("\x1b" in origin for origin in told)


@pytest.mark.parametrize("target", ["/etc/passwd", "../../etc/passwd"])
def test_a_link_that_leads_out_of_an_archive_is_refused(tmp_path, target):
    packed = tarred({"bees.md": BEES}, "w:gz", ("soft.md", tarfile.SYMTYPE, target))
    with running(tmp_path) as client:
        assert "points outside" in refused(send(client, "x.tar.gz", packed))


def long_header():
    """A tar file whose header says that a name of 3 MB follows."""
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w", format=tarfile.GNU_FORMAT) as archive:
        archive.addfile(tarfile.TarInfo("a" * 3_000_000))
    return gzip.compress(packed.getvalue())


def wide_window():
    """A tar file packed so that 128 MB have to be held in memory to unpack it."""
    packer = zstandard.ZstdCompressor(
        compression_params=zstandard.ZstdCompressionParameters(window_log=27)
    ).compressobj()
    return packer.compress(tarred({"bees.md": BEES}, "w")) + packer.flush()


@pytest.mark.sampled(4)
@pytest.mark.parametrize(
    ("name", "data", "why"),
    [
        ("x.tar.gz", tarred({"zeros": bytes(40_000_000)}), "exceeds the limit"),
        ("x.zip", zipped({f"{number}": bytes(900_000) for number in range(40)}), "exceeds the limit"),
        ("x.tar.gz", long_header(), "too long"),
        ("x.tar.gz", tarred({"bees.md": BEES})[:-20], "cannot be unpacked"),
        ("x.tar.gz", b"no archive", "cannot be unpacked"),
        ("x.tar.zst", zstd_tarred({"zeros": bytes(40_000_000)}), "exceeds the limit"),
        ("x.tar.zst", zstd_tarred({"bees.md": BEES})[:-20], "ends too early"),
        ("x.tar.zst", b"no archive", "cannot be unpacked"),
        ("x.tar.zst", zstandard.compress(b""), "cannot be unpacked"),
        ("x.tar.zst", zstandard.compress(b"") * 100_001, "too many frames"),
        ("x.tar.zst", wide_window(), "cannot be unpacked"),
        ("x.zip", zipped({"bees.md": BEES})[:-20], "not a zip file"),
        ("x.tar", tarred({str(number): b"" for number in range(20_001)}, "w"), "more than 20,000"),
        ("x.zip", zipped({str(number): b"" for number in range(20_001)}), "more than 20,000"),
    ],
    ids=[
        "tar bomb",
        "zip bomb",
        "long header",
        "cut tar",
        "no tar",
        "zstd bomb",
        "cut zstd",
        "no zstd",
        "empty zstd",
        "many frames",
        "wide zstd",
        "cut zip",
        "many in tar",
        "many in zip",
    ],
)
def test_an_archive_that_holds_too_much_or_is_damaged_is_refused_as_a_whole(tmp_path, name, data, why):
    with running(tmp_path) as client:
        send(client, "wasps.md", WASPS)
        assert why in refused(send(client, name, data))
        assert len(client.post("/v1/wiki/query", json={"mode": "recent"}).json()["changes"]) == 1


@pytest.mark.parametrize("cut", [1, 20, 300])
def test_an_archive_packed_by_zstd_that_was_cut_off_is_refused_although_what_is_left_is_whole(tmp_path, cut):
    noise = bytes(random.Random(0).randbytes(400))
    plain = tarred({"bees.md": BEES, "noise.bin": noise}, "w")
    # One block for each file: the first one comes out of the rest, too.
    packer = zstandard.ZstdCompressor().compressobj()
    packed = packer.compress(plain[:1024]) + packer.flush(zstandard.COMPRESSOBJ_FLUSH_BLOCK)
    whole = packed + packer.compress(plain[1024:]) + packer.flush()
    with running(tmp_path) as client:
        assert "ends too early" in refused(send(client, "x.tar.zst", whole[:-cut]))
        assert "ends too early" in refused(send(client, "x.tar.zst", packed))
        assert nothing_kept(client)
        assert "upload:x.tar.zst#bees.md" in outcomes(send(client, "x.tar.zst", whole))


def test_folders_empty_files_and_long_names_of_an_archive_packed_by_zstd_are_read(tmp_path):
    name = "a" * 90 + "/" + "b" * 90 + ".md"
    files = {"empty.md": b"", "bees.md": BEES, name: WASPS, "last.md": b""}
    with running(tmp_path) as client:
        told = outcomes(send(client, "x.tar.zst", zstd_tarred(files, ("folder", tarfile.DIRTYPE, ""))))
        expected = outcomes(send(client, "x.tar", tarred(files, "w", ("folder", tarfile.DIRTYPE, ""))))
    assert {one.partition("#")[2] for one in told} == {one.partition("#")[2] for one in expected} == set(files)
    assert told[f"upload:x.tar.zst#{name}"] == told["upload:x.tar.zst#bees.md"] == "created"


def test_a_file_in_an_archive_that_is_too_long_is_skipped(tmp_path):
    files = {"bees.md": BEES, "long.txt": b"Bees make honey.\n" * 200_000}
    with running(tmp_path) as client:
        packed = (("x.zip", zipped), ("x.tgz", tarred), ("x.tar.zst", zstd_tarred))
        told = {one: outcomes(send(client, one, pack(files))) for one, pack in packed}
    for name, items in told.items():
        assert items == {f"upload:{name}#bees.md": "created", f"upload:{name}#long.txt": "skipped"}


def test_nothing_of_the_servers_own_files_is_read(tmp_path):
    (tmp_path / "files").mkdir()
    (tmp_path / "files" / "secret.md").write_text("The secret is honey.", encoding="utf-8")
    with running(tmp_path, files=tmp_path / "files") as client:
        for name in ("secret.md", ".", "~"):
            send(client, name, BEES)
        refusals = [send(client, name, BEES).status_code for name in ("../secret.md", "/etc/passwd", "a#b", "", "a\n")]
        hits = client.post("/v1/wiki/query", json={"mode": "search", "input": {"text": "secret"}}).json()["hits"]
    assert refusals == [422] * 5
    assert all("The secret is honey" not in hit["text"] for hit in hits)


def test_a_file_over_the_limit_is_refused_and_a_body_of_another_path_keeps_its_own(tmp_path):
    bounds = Bounds(max_body_bytes=1_000, max_upload_bytes=100_000)
    with running(tmp_path, bounds=bounds) as client:
        assert send(client, "a.txt", b"Bees. " * 10_000).status_code == 200
        told = send(client, "a.txt", b"Bees. " * 20_000)
        assert client.post("/v1/wiki/query", json={"mode": "x" * 2_000}).status_code == 413
    assert (told.status_code, told.json()["code"]) == (413, "too_large")


def test_a_key_sends_within_its_limit_and_its_scope_and_only_with_the_right_to_write(tmp_path):
    with guarded(tmp_path) as server:
        small = server.key("write", limits=KeyLimits(max_body_bytes=1_000))
        team, reads = server.key("write", scope="/team"), server.key("read")
        sent = [
            server.ask(
                key, "POST", UPLOAD, params={"name": "bees.md", **query}, content=data, headers=BYTES
            ).status_code
            for key, query, data in [
                (small, {}, BEES),
                (small, {}, BEES * 100),
                (team, {}, BEES),
                (team, {"scope": "/"}, BEES),
                (reads, {}, BEES),
                ("", {}, BEES),
            ]
        ]
        seen = server.verb(team, "query", mode="search", input={"text": "honey"}).json()["hits"]
        other = server.verb(team, "ingest", mode="path", input={"path": "bees.md"}).status_code
    assert sent == [200, 413, 200, 403, 403, 401]
    assert [hit["scope"] for hit in seen] == ["/team"]
    assert other == 403  # sending a file lets nobody read one


def test_a_forgotten_body_leaves_what_was_sent_before(tmp_path):
    with running(tmp_path) as client:
        send(client, "bees.md", BEES)
        assert refused(send(client, "bees.md", b"")) == "The body is empty."
        assert send(client, "bees.md", BEES).json()["counts"] == {"unchanged": 1}


def test_an_upload_can_be_a_job(tmp_path):
    with running(tmp_path) as client:
        begun = send(client, "x.zip", zipped({"bees.md": BEES}), headers={"Prefer": "respond-async"})
        place = begun.headers["location"]
        with client.stream("GET", f"{place}/events") as events:
            list(events.iter_lines())
        report = client.get(place).json()
        resumed = client.post(f"{place}/resume")
    assert (begun.status_code, report["state"], report["target"]) == (202, "done", "x.zip")
    assert report["counts"] == {"created": 1}
    assert resumed.status_code == 409


def test_only_some_files_are_taken_at_once(tmp_path):
    with running(tmp_path, bounds=Bounds(uploads_at_once=0)) as client:
        assert send(client, "bees.md", BEES).status_code == 503
    with guarded(tmp_path, bounds=Bounds(uploads_of_a_key=0)) as server:
        key = server.key("write")
        assert server.ask(key, "POST", UPLOAD, params={"name": "a.md"}, content=BEES, headers=BYTES).status_code == 429


def test_a_dry_run_writes_nothing(tmp_path):
    with running(tmp_path) as client:
        send(client, "wasps.md", WASPS)
        told = send(client, "bees.md", BEES, dry_run="true")
        changes = client.post("/v1/wiki/query", json={"mode": "recent"}).json()["changes"]
    assert (told.json()["dry_run"], told.json()["counts"]) == (True, {"created": 1})
    assert len(changes) == 1


def test_an_export_of_conversations_is_read_as_conversations(tmp_path):
    transcript = b"WEBVTT\n\n00:00.000 --> 00:02.000\n<v Ada>Bees make honey.\n"
    with running(tmp_path) as client:
        told = send(client, "x.zip", zipped({"meeting.vtt": transcript}))
        alone = send(client, "meeting.vtt", transcript)
    assert [told.json()["counts"], alone.json()["counts"]] == [{"created": 1}, {"created": 1}]


@pytest.mark.parametrize("label", ["text/plain", "multipart/form-data; boundary=x", ""])
def test_an_upload_that_a_foreign_page_could_send_is_refused_with_the_way_out(tmp_path, label):
    with running(tmp_path) as client:
        answer = send(client, "run.log", BEES, headers={"Content-Type": label})
        assert answer.status_code == 415
        assert "Content-Type: application/octet-stream" in answer.json()["hint"]
        assert outcomes(send(client, "run.log", BEES, headers={"Content-Type": "text/x-log"})) == {
            "upload:run.log": "created"
        }
