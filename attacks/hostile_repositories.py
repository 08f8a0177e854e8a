"""Git repositories made to run a command when they are read, or to lead whoever reads them to files elsewhere."""

import os
import shutil
import subprocess
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

SECRET = "The launch code is heliotrope."

DRIVERS: Mapping[str, bytes] = {
    "a control byte": b"\x01e",
    "a delete byte": b"\x7fe",
    "a bidi control": "\u202ee".encode(),
    "bytes that are no UTF-8": b"\xffe",
    "a C1 control": "\x9be".encode(),
    "a line separator": "\u2028e".encode(),
    "upper case": b"E",
    "a dot": b"a.clean",
}
"""Names of filter drivers, some of which change when they are made printable."""

_WHO = {
    "GIT_AUTHOR_NAME": "Ada",
    "GIT_AUTHOR_EMAIL": "ada@example.org",
    "GIT_COMMITTER_NAME": "Ada",
    "GIT_COMMITTER_EMAIL": "ada@example.org",
    "GIT_CONFIG_GLOBAL": os.devnull,
    "GIT_CONFIG_NOSYSTEM": "1",
}


@dataclass(frozen=True, slots=True)
class Trap:
    """A repository that writes `marker` when a command of its own runs."""

    folder: Path
    marker: Path

    @property
    def sprung(self) -> bool:
        """Whether a command ran."""
        return self.marker.exists()

    @property
    def command(self) -> str:
        """A command for a shell that leaves the marker, and hands on what it is given."""
        return f"echo ran >> '{self.marker}'; cat"

    def configure(self, text: bytes, name: str = "config") -> None:
        """Add to a file of the git folder."""
        with (self.folder / ".git" / name).open("ab") as file:
            file.write(text)

    def touch(self) -> None:
        """Change the time of the file, so that git has to read it to compare it."""
        os.utime(self.folder / "a.py", (1, 1))


def git(folder: Path, *arguments: str, **environment: str) -> str:
    """Run the real git, with none of the configuration of whoever runs this."""
    settings = ("-c", "init.defaultBranch=main", "-c", "protocol.file.allow=always", "-c", "gc.auto=0")
    done = subprocess.run(
        ["git", *settings, *arguments],
        cwd=folder,
        env={"PATH": os.environ["PATH"], **_WHO, **environment},
        capture_output=True,
        check=True,
    )
    return done.stdout.decode().strip()


def repository(folder: Path, **files: str) -> Path:
    """Make a repository with one commit."""
    folder.mkdir(parents=True)
    git(folder, "init", "-q", "--template=")
    for name, text in (files or {"a.py": "answer = 42\n"}).items():
        (folder / name).write_text(text)
    git(folder, "add", "-A")
    git(folder, "commit", "-q", "-m", "First")
    return folder


def trap(folder: Path, arm: Callable[[Trap], None]) -> Trap:
    """Make a repository that an arming function turns into a trap."""
    made = Trap(repository(folder / "web"), folder / "it-ran")
    arm(made)
    made.touch()
    return made


def filtered(name: bytes, key: str = "clean") -> Callable[[Trap], None]:
    """Arm with a filter, which git runs to compare a file it cannot tell unchanged by its times."""

    def arm(made: Trap) -> None:
        (made.folder / ".gitattributes").write_bytes(b"* filter=" + name + b"\n")
        made.configure(b'[filter "%b"]\n\t%b = "%b"\n' % (name, key.encode(), made.command.encode()))

    return arm


def _monitored(made: Trap) -> None:
    _configured(made, "core", "fsmonitor")


def _hooked(made: Trap) -> None:
    hook = made.folder / ".git" / "hooks" / "post-index-change"
    hook.parent.mkdir(exist_ok=True)
    hook.write_text(f"#!/bin/sh\n{made.command} < /dev/null\n")
    hook.chmod(0o755)


def _shown_differently(made: Trap) -> None:
    (made.folder / ".gitattributes").write_text("* diff=trap\n")
    _configured(made, "diff", "external")
    _configured(made, 'diff "trap"', "textconv")
    _configured(made, 'diff "trap"', "command")


def _signed(made: Trap) -> None:
    made.configure(b"[log]\n\tshowSignature = true\n")
    program = made.folder / "gpg.sh"
    program.write_text(f"#!/bin/sh\n{made.command} < /dev/null\n")
    program.chmod(0o755)
    made.configure(f'[gpg]\n\tprogram = "{program}"\n'.encode())


def _paged(made: Trap) -> None:
    for section, key in (
        ("core", "pager"),
        ("pager", "log"),
        ("pager", "status"),
        ("alias", "log"),
        ("alias", "status"),
    ):
        _configured(made, section, key, "!" if section == "alias" else "")


def _included(made: Trap) -> None:
    filtered(b"\x01e")(made)
    config = made.folder / ".git" / "config"
    config.rename(config.with_name("more"))
    git_dir = made.folder / ".git"
    config.write_text(f'[include]\n\tpath = more\n[includeIf "gitdir:{git_dir}/"]\n\tpath = more\n')


def _configured_per_work_tree(made: Trap) -> None:
    config = made.folder / ".git" / "config"
    config.write_text("[core]\n\trepositoryformatversion = 1\n[extensions]\n\tworktreeConfig = true\n")
    (made.folder / ".gitattributes").write_bytes(b"* filter=\x01e\n")
    made.configure(b'[filter "\x01e"]\n\tclean = "%b"\n' % made.command.encode(), "config.worktree")


def fetched_from_a_command(made: Trap) -> None:
    """Arm with a missing object and a remote that is a command, which git asks for what is missing."""
    blob = git(made.folder, "rev-parse", "HEAD:a.py")
    (made.folder / ".git" / "objects" / blob[:2] / blob[2:]).unlink()
    script = made.folder / ".git" / "remote.sh"
    script.write_text(f"#!/bin/sh\necho ran >> '{made.marker}'\n")
    script.chmod(0o755)
    made.configure(
        b"[core]\n\trepositoryformatversion = 1\n\tsshCommand = " + os.fsencode(script) + b"\n"
        b'[extensions]\n\tpartialClone = origin\n[remote "origin"]\n\tpromisor = true\n'
        b"\turl = ext::" + os.fsencode(script) + b"\n[protocol]\n\tallow = always\n"
        b'[protocol "ext"]\n\tallow = always\n'
    )


TRAPS: Mapping[str, Callable[[Trap], None]] = {
    **{f"a filter with {what} in its name": filtered(name) for what, name in DRIVERS.items()},
    "a filter process": filtered(b"\x01e", "process"),
    "a monitor of the file system": _monitored,
    "a hook": _hooked,
    "a program that shows differences": _shown_differently,
    "a program that checks signatures": _signed,
    "a pager and aliases": _paged,
    "an included configuration": _included,
    "a configuration of its work tree": _configured_per_work_tree,
}
"""Ways in which a repository names a command for what git does to files that are there."""


def git_that_fetches(folder: Path) -> Path:
    """Make a folder with a git that knows nothing of GIT_NO_LAZY_FETCH, as those before 2024."""
    folder.mkdir()
    program = folder / "git"
    program.write_text(f'#!/bin/sh\nunset GIT_NO_LAZY_FETCH\nexec {shutil.which("git")} "$@"\n')
    program.chmod(0o755)
    return folder


def _configured(made: Trap, section: str, key: str, before: str = "") -> None:
    made.configure(f'[{section}]\n\t{key} = "{before}{made.command} < /dev/null"\n'.encode())


@dataclass(frozen=True, slots=True)
class WayOut:
    """What a repository leads to from inside a folder. `target` is what is named to whoever reads it."""

    root: Path
    target: Path


def private(folder: Path) -> Path:
    """Make the repository that is not to be read. Its work tree and its history hold SECRET."""
    return repository(folder / "private", **{"secret.md": f"# Secret\n\n{SECRET}\n"})


def _git_file(root: Path, hidden: Path) -> None:
    (root / "web").mkdir()
    (root / "web" / ".git").write_text(f"gitdir: {hidden}/.git\n")


def _git_link(root: Path, hidden: Path) -> None:
    (root / "web").mkdir()
    (root / "web" / ".git").symlink_to(hidden / ".git")


def _commondir(root: Path, hidden: Path) -> None:
    git_dir = root / "web" / ".git"
    git_dir.mkdir(parents=True)
    (git_dir / "HEAD").write_bytes((hidden / ".git" / "HEAD").read_bytes())
    (git_dir / "commondir").write_text(f"{hidden}/.git\n")


def _alternates(root: Path, hidden: Path) -> None:
    web = repository(root / "web")
    (web / ".git" / "objects" / "info").mkdir(exist_ok=True)
    (web / ".git" / "objects" / "info" / "alternates").write_text(f"{hidden}/.git/objects\n")
    _point(web, hidden)


def _quoted_alternates(root: Path, hidden: Path) -> None:
    _alternates(root, hidden)
    file = root / "web" / ".git" / "objects" / "info" / "alternates"
    file.write_text(f'"{hidden}/.git/objects"\n')


def _alternates_of_alternates(root: Path, hidden: Path) -> None:
    _alternates(root, hidden)
    between = root / "between" / "info"
    between.mkdir(parents=True)
    named = root / "web" / ".git" / "objects" / "info" / "alternates"
    named.rename(between / "alternates")
    named.write_text(f"{root}/between\n")


def _alternates_beside_a_link(root: Path, hidden: Path) -> None:
    """Name a folder that lies inside once links are followed, and outside as git shortens the name."""
    _alternates(root, hidden)
    up = "../" * 3
    outside = hidden.relative_to(root.parents[1])
    (root / "one" / "two" / "three" / "four").mkdir(parents=True)
    (root / "link").symlink_to(root / "one" / "two" / "three" / "four")
    (root / "one" / outside / ".git" / "objects").mkdir(parents=True)
    (root / "web" / ".git" / "objects" / "info" / "alternates").write_text(f"{root}/link/{up}{outside}/.git/objects\n")


def _linked_objects(root: Path, hidden: Path) -> None:
    web = repository(root / "web")
    shutil.rmtree(web / ".git" / "objects")
    (web / ".git" / "objects").symlink_to(hidden / ".git" / "objects")
    _point(web, hidden)


def _linked_object(root: Path, hidden: Path) -> None:
    web = repository(root / "web")
    for folder in (hidden / ".git" / "objects").iterdir():
        own = web / ".git" / "objects" / folder.name
        own.mkdir(exist_ok=True)
        for file in folder.iterdir():
            if not (own / file.name).exists():
                (own / file.name).symlink_to(file)
    _point(web, hidden)


def _linked_pack(root: Path, hidden: Path) -> None:
    git(hidden, "repack", "-adq")
    web = repository(root / "web")
    (web / ".git" / "objects" / "pack").rmdir()
    (web / ".git" / "objects" / "pack").symlink_to(hidden / ".git" / "objects" / "pack")
    _point(web, hidden)


def _work_tree(root: Path, hidden: Path) -> None:
    web = repository(root / "web")
    git(web, "config", "core.worktree", str(hidden))


def _linked_refs(root: Path, hidden: Path) -> None:
    """Show which commit another repository is at, by a ref that is a link to one of its own."""
    web = repository(root / "web")
    (web / ".git" / "refs" / "heads" / "main").unlink()
    (web / ".git" / "refs" / "heads" / "main").symlink_to(hidden / ".git" / "refs" / "heads" / "main")


def _linked_index(root: Path, hidden: Path) -> None:
    web = repository(root / "web")
    (web / ".git" / "index").unlink()
    (web / ".git" / "index").symlink_to(hidden / ".git" / "index")


def _linked_configuration(root: Path, hidden: Path) -> None:
    git(hidden, "remote", "add", "origin", f"https://example.org/{SECRET.replace(' ', '-')}")
    web = repository(root / "web")
    (web / ".git" / "config").unlink()
    (web / ".git" / "config").symlink_to(hidden / ".git" / "config")


def _linked_folder(root: Path, hidden: Path) -> None:
    (root / "web").symlink_to(hidden)


WAYS_OUT: Mapping[str, Callable[[Path, Path], None]] = {
    "a .git file": _git_file,
    "a .git link": _git_link,
    "commondir": _commondir,
    "alternates": _alternates,
    "alternates in quotation marks": _quoted_alternates,
    "alternates of alternates": _alternates_of_alternates,
    "alternates named beside a link": _alternates_beside_a_link,
    "linked objects": _linked_objects,
    "one linked object": _linked_object,
    "linked packs": _linked_pack,
    "core.worktree": _work_tree,
    "a linked ref": _linked_refs,
    "a linked index": _linked_index,
    "a linked configuration": _linked_configuration,
    "a linked folder": _linked_folder,
}
"""Ways in which a repository below a root leads out of it; each makes `web` below the root given first."""


def way_out(folder: Path, lead: Callable[[Path, Path], None], number: int = 0) -> WayOut:
    """Make a folder in `root` with the repository `web` in it, which leads to a private one outside of `root`."""
    root = folder / "root"
    own = root / str(number)
    own.mkdir(parents=True)
    lead(own, private(folder / "outside" / str(number)))
    return WayOut(root, own / "web")


def _point(web: Path, hidden: Path) -> None:
    """Let the branch stand for the commit of the private repository."""
    (web / ".git" / "refs" / "heads" / "main").write_text(git(hidden, "rev-parse", "HEAD") + "\n")
