"""Addresses of cited lines: on a forge, in the work tree, or none."""

import re
from dataclasses import dataclass
from typing import Literal, Protocol

from treering.extensions.wiki.files.links import quoted_path, relative_path
from treering.extensions.wiki.pages import LineCitation

LinkForm = Literal["auto", "forge", "files", "text"]
"""The target of citations: the forge, the work tree, or none; `auto` uses the first that is available."""

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


class SourceAddresses(Protocol):
    """Returns the addresses of cited lines."""

    def address(self, page: str, citation: LineCitation) -> str | None:
        """Return the address relative to a page, or `None` if there is none."""
        ...


@dataclass(frozen=True, slots=True)
class NoAddresses:
    """No links: citations are plain text."""

    def address(self, page: str, citation: LineCitation) -> None:  # noqa: ARG002 - the protocol has both
        """Return `None`."""
        return


@dataclass(frozen=True, slots=True)
class ForgeAddresses:
    """Links to a forge, at the cited commit."""

    repository: str
    """Such as `https://github.com/pallets/flask`."""
    form: Literal["github", "gitlab", "gitea"]

    def address(self, page: str, citation: LineCitation) -> str | None:  # noqa: ARG002 - the protocol has both
        """Return the address of the lines, or `None` without a commit."""
        if citation.commit is None or not _COMMIT.fullmatch(citation.commit):
            return None
        blob, lines = _FORMS[self.form]
        at = lines.format(first=citation.first_line, last=citation.last_line)
        return f"{self.repository}{blob}{citation.commit}/{quoted_path(citation.path)}{at}"


@dataclass(frozen=True, slots=True)
class FileAddresses:
    """Relative links to files of the work tree that contains the wiki."""

    wiki: str
    """The path of the wiki from the root of the work tree, with `/`; "" for the root."""

    def address(self, page: str, citation: LineCitation) -> str:
        """Return the relative path of the file, with the lines as forges write them."""
        here = f"{self.wiki}/{page}" if self.wiki else page
        lines = f"#L{citation.first_line}-L{citation.last_line}"
        return quoted_path(relative_path(here, citation.path)) + lines


def forge_of(remote: str) -> ForgeAddresses | None:
    """Return the addresses at the forge of a git remote, or `None` if the forge is unknown."""
    found = _REMOTE.fullmatch(remote.strip())
    form = _form_of(found["host"].lower()) if found else None
    if found is None or form is None:
        return None
    return ForgeAddresses(f"https://{found['host'].lower()}/{found['path'].removesuffix('.git')}", form)


def _form_of(host: str) -> Literal["github", "gitlab", "gitea"] | None:
    for form in ("github", "gitlab", "gitea"):
        if host == f"{form}.com" or host.startswith(f"{form}."):
            return form
    return "gitea" if host in _GITEA_HOSTS else None
