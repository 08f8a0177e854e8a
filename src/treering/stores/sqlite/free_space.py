"""Overwrite the parts of a database file that belong to no row.

SQLite overwrites the rows that it deletes (`secure_delete`), but not the copies that remain in a page when its rows
move to other pages. They remain in the free space of pages (https://sqlite.org/fileformat2.html#b_tree_pages), whose
content has no meaning: a file in which only a part of it was overwritten is intact.
"""

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from struct import unpack_from

import apsw

_HEADER_BYTES = {2: 12, 5: 12, 10: 8, 13: 8}
"""The length of the header of a page of a table or an index, by its first byte."""
_MAX_PAGES = 1 << 25
"""In a larger file, pages that begin with the number of another page may begin with one of these bytes."""
_LARGEST_PAGE = 65_536
"""Bytes of a page, at most; also how much is read and written at a time. SQLite writes less than 128 KiB at a time."""
_ZEROS = bytes(_LARGEST_PAGE)
_MAX_FREE_SHARE = 0.25
"""The share of free pages from which on rewriting the file pays, because it releases them."""


def is_worth_clearing(connection: apsw.Connection) -> bool:
    """Return whether the kind of each page can be recognized, and few pages are free."""
    pages, free = connection.pragma("page_count"), connection.pragma("freelist_count")
    is_known = bool(connection.filename) and not connection.pragma("auto_vacuum") and pages < _MAX_PAGES
    return is_known and free <= _MAX_FREE_SHARE * pages


def is_log_empty(connection: apsw.Connection) -> bool:
    """Return whether the file contains all changes. In a write transaction, so that it stays so."""
    log = Path(connection.filename_wal)
    return not log.exists() or not log.stat().st_size


def clear_free_space(connection: apsw.Connection) -> bool:
    """Overwrite the free space of all pages; return whether everything that belongs to no row is overwritten now.

    In a write transaction that has read nothing, while the log is empty. The transaction must write something
    afterwards: other connections then read all pages again before they write. Raises `apsw.CorruptError` for a page
    with an impossible header.
    """
    # Otherwise this connection could write pages again as it read them before.
    connection.execute("PRAGMA shrink_memory")
    size = connection.pragma("page_size")
    # SQLite opens the file, because closing it otherwise would release the locks of this process.
    with closing(_File(connection.filename)) as file:
        if any(file.xRead(size, start) != _ZEROS[:size] for start in _free_pages(file, size)):
            return False
        for start in range(0, file.xFileSize(), _LARGEST_PAGE):
            chunk = file.xRead(min(_LARGEST_PAGE, file.xFileSize() - start), start)
            # The first page contains only the schema.
            for begin, end in _used_free_space(chunk, size, 0 if start else size):
                file.xWrite(_ZEROS[: end - begin], start + begin)
        file.xSync(apsw.SQLITE_SYNC_FULL)
    return True


class _File(apsw.VFSFile):
    def __init__(self, path: str) -> None:
        super().__init__("", path, [apsw.SQLITE_OPEN_MAIN_DB | apsw.SQLITE_OPEN_READWRITE, 0])

    def close(self) -> None:
        self.xClose()


def _free_pages(file: apsw.VFSFile, size: int) -> Iterator[int]:
    """Yield the positions of the free pages, except those that contain the list of the others."""
    (trunk,) = unpack_from(">I", file.xRead(36, 0), 32)
    seen = {0}
    while trunk not in seen:
        seen.add(trunk)
        page = file.xRead(size, (trunk - 1) * size)
        trunk, count = unpack_from(">II", page.ljust(size, b"\xff"))
        if count > size // 4 - 2:
            raise apsw.CorruptError("the list of free pages is damaged")
        yield from ((number - 1) * size for number in unpack_from(f">{count}I", page, 8))


def _used_free_space(chunk: bytes, size: int, first: int) -> Iterator[tuple[int, int]]:
    """Yield the ranges of free space in the pages of a chunk that are not zero."""
    for page in range(first, len(chunk) - size + 1, size):
        header = _HEADER_BYTES.get(chunk[page])
        if header is None:
            continue  # the rest of a long row, or a free page
        block, cells, content = unpack_from(">HHH", chunk, page + 1)
        begin, end = page + header + 2 * cells, page + (content or _LARGEST_PAGE)
        if not begin <= end <= page + size:
            raise apsw.CorruptError("a page has an impossible header")
        if chunk[begin:end] != _ZEROS[: end - begin]:
            yield begin, end
        if block:
            yield from _used_blocks(chunk, page, size, block)


def _used_blocks(chunk: bytes, page: int, size: int, block: int) -> Iterator[tuple[int, int]]:
    """Yield the ranges between rows that are not zero. Each block begins with the next one's place and its length."""
    while block:
        following, length = unpack_from(">HH", chunk, page + min(block, size - 4))
        if block + length > size or 0 < following < block + length:
            raise apsw.CorruptError("a page has an impossible list of free blocks")
        begin, end = page + block + 4, page + block + max(length, 4)
        if chunk[begin:end] != _ZEROS[: end - begin]:
            yield begin, end
        block = following
