"""Addresses of cited lines: on a forge, in the work tree, or none."""

import re
from collections.abc import Callable
from typing import Literal

from treering.extensions.wiki.files.links import quoted_path, relative_path
from treering.extensions.wiki.pages import LineCitation

LinkForm = Literal["auto", "forge", "files", "text"]
"""The target of citations: the forge, the work tree, or none; `auto` uses the first that is available."""

SourceAddress = Callable[[str, LineCitation], str | None]
"""Returns the address of cited lines relative to a page, or `None` if there is none."""

_REMOTE = re.compile(
    r"(?:(?:https?|ssh|git)://)?(?:[^@/\s]*@)?(?P<host>[A-Za-z0-9.-]+)(?::\d+(?=/))?[:/]"
    r"(?P<path>[\w.~-]+(?:/[\w.~-]+)+)/?",
    re.ASCII,
)
_FORMS = {
    "github": ("/blob/", "#L{first}-L{last}"),
    "gitlab": ("/-/blob/", "#L{first}-{last}"),
    "gitea": ("/src/commit/", "#L{first}-L{last}"),
}
_GITEA_HOSTS = frozenset({"codeberg.org"})
_COMMIT = re.compile(r"[0-9a-f]{7,64}")


def no_address(_page: str, _citation: LineCitation) -> None:
    """Return no address: citations are plain text."""


def file_addresses(wiki: str) -> SourceAddress:
    """Return relative addresses of files in the work tree, with the lines as forges write them.

    `wiki`: the path of the wiki from the root of the work tree, with `/`; "" for the root.
    """

    def address(page: str, citation: LineCitation) -> str:
        here = f"{wiki}/{page}" if wiki else page
        lines = f"#L{citation.first_line}-L{citation.last_line}"
        return quoted_path(relative_path(here, citation.path)) + lines

    return address


def forge_of(remote: str) -> SourceAddress | None:
    """Return addresses at the forge of a git remote, at the cited commit, or `None` if the forge is unknown."""
    parts = _REMOTE.fullmatch(remote.strip())
    form = _form_of(parts["host"].lower()) if parts else None
    if parts is None or form is None:
        return None
    repository = f"https://{parts['host'].lower()}/{parts['path'].removesuffix('.git')}"
    blob, lines = _FORMS[form]

    def address(_page: str, citation: LineCitation) -> str | None:
        if citation.commit is None or not _COMMIT.fullmatch(citation.commit):
            return None
        at = lines.format(first=citation.first_line, last=citation.last_line)
        return f"{repository}{blob}{citation.commit}/{quoted_path(citation.path)}{at}"

    return address


def _form_of(host: str) -> str | None:
    named = (form for form in _FORMS if host == f"{form}.com" or host.startswith(f"{form}."))
    return next(named, "gitea" if host in _GITEA_HOSTS else None)
