"""Where lines of source files can be read: on a forge, in the work tree, or nowhere."""

import re
from dataclasses import dataclass
from typing import Literal, Protocol

from treering.memories.wiki.files.links import quoted_path, relative_path
from treering.memories.wiki.pages import LineCitation

LinkForm = Literal["auto", "forge", "files", "text"]
"""How citations are linked: at the forge, into the work tree, or not at all; `auto` takes the first that is known."""

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
    """Says where the lines of a citation can be read from a page."""

    def address(self, page: str, citation: LineCitation) -> str | None:
        """Return the address; `None` where there is none."""
        ...


@dataclass(frozen=True, slots=True)
class NoAddresses:
    """Citations stay text."""

    def address(self, page: str, citation: LineCitation) -> None:  # noqa: ARG002 - one shape for all
        """Return nothing."""
        return


@dataclass(frozen=True, slots=True)
class ForgeAddresses:
    """Citations lead to a forge, at the commit at which they were read."""

    repository: str
    """Such as `https://github.com/pallets/flask`."""
    form: Literal["github", "gitlab", "gitea"]

    def address(self, page: str, citation: LineCitation) -> str | None:  # noqa: ARG002 - one shape for all
        """Return the address of the lines; `None` for what is in no commit."""
        if citation.commit is None or not _COMMIT.fullmatch(citation.commit):
            return None
        blob, lines = _FORMS[self.form]
        at = lines.format(first=citation.first_line, last=citation.last_line)
        return f"{self.repository}{blob}{citation.commit}/{quoted_path(citation.path)}{at}"


@dataclass(frozen=True, slots=True)
class FileAddresses:
    """Citations lead to files of the work tree in which the wiki lies."""

    wiki: str
    """Where the wiki lies below the root of the work tree, with `/`; empty where it is the root."""

    def address(self, page: str, citation: LineCitation) -> str:
        """Return the way to the file, with the lines as forges write them."""
        here = f"{self.wiki}/{page}" if self.wiki else page
        lines = f"#L{citation.first_line}-L{citation.last_line}"
        return quoted_path(relative_path(here, citation.path)) + lines


def forge_of(remote: str) -> ForgeAddresses | None:
    """Return the addresses at the forge that a git remote names; `None` where its form is not known."""
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
