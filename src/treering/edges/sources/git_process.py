"""Running git: which program, in which surroundings, and what its failures mean.

git runs what its configuration names: filters, hooks, monitors, pagers, helpers of protocols. So it never sees a
configuration but the one Treering wrote: not the repository's, and not the user's either, except to read it
(`user_settings`).
"""

import os
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from time import monotonic

from treering.core.errors import TreeringError, Unavailable
from treering.edges.sources.names import printable
from treering.ports.interrupt import check_between_steps

SECONDS = 120.0
"""How long git may take to answer."""

_LOOKING_SECONDS = 0.2

_PROGRAM = "git.exe" if os.name == "nt" else "git"
_SYSTEM = ("SYSTEMROOT", "TMPDIR", "TEMP", "TMP")
_USER = ("HOME", "USERPROFILE", "XDG_CONFIG_HOME", "GIT_CONFIG_GLOBAL", "GIT_CONFIG_SYSTEM", "GIT_CONFIG_NOSYSTEM")
# `os.devnull` as the repository: git looks for none around the folder it runs in.
_FIXED = {"LC_ALL": "C", "GIT_DIR": os.devnull, "GIT_TERMINAL_PROMPT": "0", "GIT_OPTIONAL_LOCKS": "0"}
_NO_CONFIGURATION = {
    "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_CONFIG_SYSTEM": os.devnull,
    "GIT_CONFIG_GLOBAL": os.devnull,
    # A git older than 2.32 knows no GIT_CONFIG_GLOBAL and looks in the home folder.
    "HOME": os.devnull,
    "XDG_CONFIG_HOME": os.devnull,
    "GIT_NO_LAZY_FETCH": "1",
    "GIT_ALLOW_PROTOCOL": "none",
}

Settings = list[tuple[bytes, bytes | None]]
"""Keys and values as git reads them, in order; `None`: the key stands without a value."""


def git_command(*arguments: str) -> list[str]:
    """Return the command that runs git, found in the absolute folders of PATH. Raises `Unavailable` without git.

    A relative folder of PATH, and on Windows the working folder, may be the repository that is read.
    """
    for folder in _path():
        program = Path(folder, _PROGRAM)
        if program.is_file() and os.access(program, os.X_OK):
            return [str(program), "--no-pager", "--no-replace-objects", *arguments]
    raise Unavailable("git is not installed.", hint="Install git and make sure `git --version` answers.")


def git_environment(**more: str) -> dict[str, str]:
    """Return the whole environment of a git that reads no configuration of the user, the system or a repository."""
    return _surroundings(_SYSTEM) | _FIXED | _NO_CONFIGURATION | more


def run_git(
    command: Sequence[str], environment: Mapping[str, str], *, folder: Path | str, given: bytes = b""
) -> subprocess.CompletedProcess[bytes]:
    """Run git in a folder that is not the repository's.

    It ends with the work it is for: a pattern in a `.gitattributes` can keep git busy for ever. Raises `Unavailable`
    where it does not answer in time, and what ends the work under way (`ports.interrupt`).
    """
    process = subprocess.Popen(  # noqa: S603 - no shell; the arguments are ours, paths and revisions are checked
        command,
        env=environment,
        cwd=folder,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    try:
        said, complained = _communicate(process, given)
    except BaseException:  # Ctrl-C too: whatever it is, git must not outlive its caller
        process.kill()
        process.communicate()
        raise
    return subprocess.CompletedProcess(command, process.returncode, said, complained)


def _communicate(process: subprocess.Popen[bytes], given: bytes) -> tuple[bytes, bytes]:
    until, left = monotonic() + SECONDS, given or None
    while True:
        try:
            return process.communicate(left, timeout=_LOOKING_SECONDS)
        except subprocess.TimeoutExpired as error:
            check_between_steps()
            if monotonic() >= until:
                raise Unavailable(
                    f"git did not answer within {SECONDS:.0f} seconds.",
                    hint="Check that the repository's disk answers, and try again.",
                ) from error
        left = None  # it is being sent already


def parse_settings(text: bytes, *, where: str) -> Settings:
    """Read a configuration file with git's own parser. Includes are not followed. Raises `Unavailable`."""
    command = git_command("config", "--file", "-", "--no-includes", "--list", "-z")
    done = run_git(command, git_environment(), folder=tempfile.gettempdir(), given=text)
    if done.returncode != 0:
        raise Unavailable(
            f"{where} cannot be read as a git configuration: {_last_line(done.stderr)}", hint="Correct that file."
        )
    return _settings(done.stdout)


def user_settings() -> Settings:
    """Read the configuration of the user and the system, with what it includes. Raises `Unavailable`."""
    environment = _surroundings((*_SYSTEM, *_USER)) | _FIXED
    done = run_git(git_command("config", "--list", "-z"), environment, folder=tempfile.gettempdir())
    if done.returncode != 0:
        raise failure("config", done, hint="Correct your git configuration: `git config --global --list` shows it.")
    return _settings(done.stdout)


def hooks_folder(top: Path) -> Path:
    """Return where git looks for the hooks of a work tree, as the user's and its own configuration say.

    Raises `Unavailable`. It is for a repository of the user's own, whose hooks they mean to change: git reads its
    configuration here.
    """
    environment = _surroundings((*_SYSTEM, *_USER)) | {"LC_ALL": "C", "GIT_OPTIONAL_LOCKS": "0"}
    done = run_git(git_command("-C", str(top), "rev-parse", "--git-path", "hooks"), environment, folder=top)
    if done.returncode != 0:
        raise failure("rev-parse", done, hint="Check that `git status` works there.")
    return top / os.fsdecode(done.stdout.removesuffix(b"\n"))


def user_file(name: str) -> Path | None:
    """Return a file of the user's git that counts where the configuration names none: `ignore`, `attributes`."""
    named = os.environ.get("XDG_CONFIG_HOME", "")
    try:
        file = (Path(named) if named else Path.home() / ".config") / "git" / name
    except RuntimeError:  # a user without a home
        return None
    return file if file.is_file() else None


def failure(verb: str, done: subprocess.CompletedProcess[bytes], *, hint: str) -> TreeringError:
    """Return what git said as an error."""
    return Unavailable(f"git {verb} failed: {_last_line(done.stderr)}", hint=hint)


def _settings(listing: bytes) -> Settings:
    records = (record.partition(b"\n") for record in listing.split(b"\0") if record)
    return [(key, value if newline else None) for key, newline, value in records]


def _surroundings(names: Sequence[str]) -> dict[str, str]:
    # Not a setting of Treering: what the child process needs of its surroundings is passed through unread. All else
    # is left out: GIT_DIR and its like, set wherever a hook calls us, would point git at another repository.
    return {name: os.environ[name] for name in names if name in os.environ} | {"PATH": os.pathsep.join(_path())}


def _path() -> list[str]:
    return [folder for folder in os.environ.get("PATH", "").split(os.pathsep) if Path(folder).is_absolute()]


def _last_line(said: bytes) -> str:
    return printable(said.strip().split(b"\n")[-1])
