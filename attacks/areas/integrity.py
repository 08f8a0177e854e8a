"""Somebody changes what the file of a space holds: no read may serve it, and no audit may pass it.

The alterations are those that tests of agent memories make: texts, bodies, rows, history.
"""

import shutil
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

import apsw

import treering
from attacks.attack import Attack, Count
from treering.core.errors import Corrupt, TreeringError
from treering.stores.rows.packing import pack, unpack
from treering.testing.fakes import HashingEmbedder

FORGED = "wire it to Mallory"
NOBODY = "know:" + "0" * 26


def _open(path: Path, **options: object) -> treering.Space:
    return treering.open(f"sqlite:{path}", background=False, embedder=HashingEmbedder(), channel="user", **options)


def _fill(path: Path, anchor: Path | None = None) -> dict[str, str]:
    with _open(path, anchor=anchor) as space:
        refs = []
        for number, text in enumerate(("The upload is retried.", "An upload is logged.")):
            report = space.ingest("source", input={"items": [{"text": text, "origin": f"{number}.md"}]})
            source = space.engine.ledger.get(report.items[0].source_id)
            refs.append({"source_id": source.id, "segment_id": source.segments[0].segment_id})
        ids = []
        for title, ref in zip(("Retry the upload", "Log the upload", "Upload by hand"), (*refs, refs[1]), strict=True):
            payload = {"question": "Which?", "outcome": title}
            given = {"kind": "decision", "title": title, "payload": payload, "evidence_refs": [ref], "status": "active"}
            ids.append(space.crystallize("knowledge", input=given).ids[0])
        space.crystallize("knowledge", input={"id": ids[0], "summary": "Again"})
        space.crystallize("supersede", input={"id": ids[2], "by": ids[1]})
    return {
        "source": refs[0]["source_id"],
        "other": refs[1]["source_id"],
        "a": ids[0],
        "b": ids[1],
        "old": ids[2],
        "nobody": NOBODY,
    }


ALTERATIONS: Mapping[str, str] = {
    "altered segment text": "UPDATE texts SET body = packed('The upload: {forged}.') WHERE row = "
    "(SELECT text_row FROM segments WHERE source_id = '{source}')",
    "altered object body": "UPDATE revisions SET body = edited(body, 'Retry the upload', 'The upload: {forged}') "
    "WHERE id = '{a}'",
    "altered row column": "UPDATE objects SET title = 'The upload: {forged}' WHERE id = '{a}'",
    "swapped segments": "UPDATE segments SET text_row = (SELECT sum(text_row) FROM segments s) - text_row "
    "WHERE source_id IN ('{source}', '{other}')",
    "forged new row": "INSERT INTO objects SELECT '{nobody}', type, kind, status, scope, 1, "
    "'The upload: {forged}', channel, created_at, created_at, origin, fingerprint, slug, NULL, NULL FROM objects "
    "WHERE id = '{a}'; INSERT INTO revisions(id, revision, seq, body) SELECT '{nobody}', 1, seq, "
    "edited(edited(body, id, '{nobody}'), 'Retry the upload', '{forged}') FROM revisions "
    "WHERE id = '{a}' AND revision = 1; UPDATE passages SET object_id = '{nobody}' "
    "WHERE object_id = '{a}'",
    "changed status": "UPDATE objects SET status = 'active' WHERE id = '{old}'; UPDATE revisions SET body = "
    "edited(body, 'superseded', 'active') WHERE id = '{old}'",
    "re-pointed evidence": "UPDATE revisions SET body = edited(body, '{source}', '{other}') WHERE id = '{a}'",
    "rolled-back revision": "DELETE FROM revisions WHERE id = '{a}' AND revision = 2; "
    "UPDATE objects SET revision = 1, updated_at = created_at WHERE id = '{a}'",
    "deleted row": "DELETE FROM revisions WHERE id = '{a}'; DELETE FROM objects WHERE id = '{a}'",
}
"""What is changed, and how. Every alteration but a deletion leaves something to be served."""

TOUCHED: Mapping[str, str] = {
    "altered segment text": "source",
    "swapped segments": "source",
    "changed status": "old",
    "forged new row": "nobody",
}


def _alter(path: Path, script: str, ids: Mapping[str, str]) -> None:
    connection = apsw.Connection(str(path))
    connection.create_scalar_function("edited", lambda body, old, new: pack(unpack(body).replace(old, new)), 3)
    connection.create_scalar_function("packed", pack, 1)
    for statement in script.format(forged=FORGED, **ids).split("; "):
        connection.execute(statement)
    connection.close()


def _each(folder: Path, served: Callable[[Path, Mapping[str, str], str], bool]) -> Count:
    original = folder / "original.db"
    ids, reached = _fill(original), list[str]()
    for name, script in ALTERATIONS.items():
        path = folder / "space.db"
        shutil.copy(original, path)
        _alter(path, script, ids)
        if served(path, ids, name):
            reached.append(name)
    return Count(len(ALTERATIONS), len(reached), "; ".join(reached))


def _read(path: Path, ids: Mapping[str, str], name: str) -> bool:
    """Tell whether what was altered is served by a search, a context or a page."""
    target = ids[TOUCHED.get(name, "a")]
    shown, texts = set[str](), list[str]()
    with _open(path) as space:
        with suppress(TreeringError):
            hits = space.query("search", input={"text": "upload"}).hits
            shown.update(hit.object_id for hit in hits)
            texts += [f"{hit.title} {hit.text}" for hit in hits]
        with suppress(TreeringError):
            items = space.query("context", input={"task": "upload"}).pack.items
            shown.update(item.object_id for item in items)
            texts += [f"{item.title} {item.text}" for item in items]
        with suppress(TreeringError):
            shown.add(str(space.query("page", input={"id": target}).object["id"]))
    return target in shown or any(FORGED in text for text in texts)


def _audit(path: Path, _ids: Mapping[str, str], _name: str) -> bool:
    """Tell whether the audit passes."""
    with _open(path) as space:
        return bool(space.lint("audit").verified)


def _reads(folder: Path) -> Count:
    return _each(folder, _read)


def _audits(folder: Path) -> Count:
    return _each(folder, _audit)


def _forged_patches(folder: Path) -> Count:
    """Change who made a patch, why, what it did; take one away, add one."""
    original = folder / "original.db"
    ids = _fill(original)
    scripts = (
        """UPDATE patches SET body = edited(body, '"channel":"user"', '"channel":"agent"')""",
        """UPDATE patches SET body = edited(body, '"reason":""', '"reason":"the user asked"')""",
        "UPDATE patches SET body = edited(body, '{a}', '{b}')",
        "DELETE FROM patches WHERE id = (SELECT min(id) FROM patches)",
        "INSERT INTO patches SELECT 'patch:00000000000000000000000000', status, "
        "edited(body, id, 'patch:00000000000000000000000000') FROM patches LIMIT 1",
    )
    reached = 0
    for script in scripts:
        path = folder / "space.db"
        shutil.copy(original, path)
        _alter(path, script, ids)
        reached += _audit(path, ids, "")
    return Count(len(scripts), reached)


def _rollback(folder: Path) -> Count:
    """Put an older copy of a space with an anchor in place."""
    path, anchor, older = folder / "space.db", folder / "anchor.json", folder / "older.db"
    _fill(path, anchor)
    shutil.copy(path, older)
    with _open(path, anchor=anchor) as space:
        space.ingest("source", input={"items": [{"text": "The newest.", "origin": "new.md"}]})
    shutil.copy(older, path)
    try:
        _open(path, anchor=anchor).close()
    except Corrupt:
        return Count(1, 0)
    return Count(1, 1)


ATTACKS: Sequence[Attack] = (
    Attack("altered content served by a read", _reads),
    Attack("altered content passed by the audit", _audits),
    Attack("forged records of patches passed by the audit", _forged_patches),
    Attack("an older copy opened with an anchor", _rollback),
)
