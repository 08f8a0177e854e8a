"""Wiki pages that cite removed lines. Imported only if the wiki part is installed."""

import shlex
from collections.abc import Iterator

from treering.core.evidence import find_lines, lines_as_typed
from treering.extensions.checks.change import BranchChange
from treering.extensions.checks.findings import Checked, CheckFinding, finding, touched_place
from treering.extensions.wiki.citing import cited_words
from treering.extensions.wiki.files.manifest import WrittenCitation
from treering.extensions.wiki.own_pages import is_manifest_of_wiki, wiki_pages


def rotten_pages(checked: Checked) -> list[CheckFinding]:
    """Return the affected pages in the repository and in the space."""
    return [*_rotten_pages(checked), *_rotten_kept_pages(checked)]


def _rotten_pages(checked: Checked) -> Iterator[CheckFinding]:
    change = checked.change
    before = {path: one.blob for path, one in change.before.items() if is_manifest_of_wiki(path)}
    after = {path: blob for path, blob in change.after.items() if is_manifest_of_wiki(path)}
    wikis, now = (
        wiki_pages({path: (change.text(blob) or "").encode() for path, blob in manifests.items()}).wikis
        for manifests in (before, after)
    )
    for folder, wiki in now.items():
        known = wikis[folder].files if folder in wikis else {}
        for name, record in wiki.files.items():
            cited_before = frozenset(known[name].cited if name in known else ())
            reasons = (_rot_of_file(change, one, in_base=one in cited_before) for one in record.cited)
            if why := next(filter(None, reasons), ""):
                page = f"{folder}/{name}" if folder else name
                at = page, _line_of_citation(change, page, why.split("#L")[0].removeprefix("It cites "))
                mend = f"treering add . && treering wiki build --to {shlex.quote(folder or '.')}"
                yield finding("rotten-page", at, record.title or page, why, mend)


def _rot(change: BranchChange, path: str, lines: tuple[int, int], words: str) -> str:
    """Return why cited lines are no longer valid, or ""."""
    if not words.strip():
        return ""
    place = f"It cites {lines_as_typed(path, *lines)}, which"
    _, now = change.place_now(path)
    if not now:
        return f"{place} is deleted."
    return "" if find_lines(words, change.text(now) or "") else f"{place} has changed since it was cited."


def _rot_of_file(change: BranchChange, cited: WrittenCitation, *, in_base: bool) -> str:
    """Return why lines cited by a page in a folder are no longer valid, or "" if they are valid or were not before.

    A page of the base cites lines of the base; a page written since cites lines of its commit.
    """
    file = change.by_old_path.get(cited.path)
    if file is None and (in_base or cited.path in change.before):
        return ""
    blob = file.old if file and in_base else change.blob_at(cited.commit, cited.path)
    words = "\n".join((change.text(blob) or "").split("\n")[cited.first - 1 : cited.last])
    return _rot(change, cited.path, (cited.first, cited.last), words)


def _rotten_kept_pages(checked: Checked) -> Iterator[CheckFinding]:
    """Check the pages in the space. The space may have read any commit, so they may cite either side."""
    change = checked.change
    for page in checked.held.pages:
        for path, cited, salt in page.cited:
            file = change.by_old_path.get(path)
            blobs = (file.old if file else "", change.blob_at(cited.commit or "", path))
            words = (cited_words(cited, change.text(blob) or "", salt) for blob in blobs)
            if why := _rot(change, path, (cited.first_line, cited.last_line), next(filter(None, words), "")):
                at = touched_place(checked, path, {})
                show = f"treering show {page.id}"
                yield finding("rotten-page", at, page.title, f"{why} The page is stored in the space.", show, page.id)
                break


def _line_of_citation(change: BranchChange, page: str, path: str) -> int:
    lines = (change.text(change.after.get(page, "")) or "").splitlines()
    return next((number for number, line in enumerate(lines, start=1) if path in line), 1)
