"""Start git. No other module of Treering does.

git runs commands named in its configuration: filters, hooks, monitors, pagers, protocol helpers. It is therefore
started in one of three environments, none of which reads a repository that others can write:

- `isolated_environment`: only a configuration Treering wrote counts, and nothing is fetched.
- `user_environment`: the configuration of the user and the system counts, to read it.
- `remote_environment`, with `remote_options`: the same, and git reaches a remote as the user does.

Standard library only: `treering verify --checker` prints this module as a part of the checker of proofs.
"""

import os
import subprocess
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

SECONDS = 120.0
"""How long git may take to answer."""

_PROGRAM = "git.exe" if os.name == "nt" else "git"
_SYSTEM = ("SYSTEMROOT", "TMPDIR", "TEMP", "TMP")
_USER = ("HOME", "USERPROFILE", "XDG_CONFIG_HOME", "GIT_CONFIG_GLOBAL", "GIT_CONFIG_SYSTEM", "GIT_CONFIG_NOSYSTEM")
_REACHING = (*_USER, "GIT_SSH", "GIT_SSH_COMMAND", "GIT_SSH_VARIANT", "GIT_ASKPASS", "GIT_SSL_CAINFO", "GIT_SSL_CAPATH")
_FIXED = {"LC_ALL": "C", "GIT_TERMINAL_PROMPT": "0", "GIT_OPTIONAL_LOCKS": "0", "GIT_NO_LAZY_FETCH": "1"}
_NO_CONFIGURATION = {
    "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_CONFIG_SYSTEM": os.devnull,
    "GIT_CONFIG_GLOBAL": os.devnull,
    "GIT_ATTR_NOSYSTEM": "1",
    # A git older than 2.32 knows no GIT_CONFIG_GLOBAL and looks in the home folder.
    "HOME": os.devnull,
    "XDG_CONFIG_HOME": os.devnull,
    "GIT_ALLOW_PROTOCOL": "none",
}
_PROTOCOLS = ("https", "http", "ssh", "git")


def _options(**settings: str) -> tuple[str, ...]:
    named = {key.replace("__", "."): value for key, value in settings.items()}
    return tuple(word for key, value in named.items() for word in ("-c", f"{key}={value}"))


_NOTHING_RUNS = _options(
    core__hooksPath=os.devnull,
    core__fsmonitor="false",
    core__alternateRefsCommand="true",  # the program `true`, which names no refs
    gc__auto="0",
    maintenance__auto="false",
    safe__bareRepository="explicit",
)


def remote_options(*, local: bool) -> tuple[str, ...]:
    """Return the options of a git that reaches a remote. `local`: it is on this machine.

    Other protocols count only if the user's own settings allow them, and `ext`, which runs commands, never does.
    """
    allowed = {f"protocol__{name}__allow": "always" for name in _PROTOCOLS}
    kept_apart = _options(protocol__file__allow="always" if local else "never", protocol__ext__allow="never")
    return (*_NOTHING_RUNS, *_options(protocol__allow="never", **allowed), *kept_apart)


def served(verb: str) -> str:
    """Return the command that serves a repository on this machine; git runs no program from its configuration.

    `verb`: `upload-pack` or `receive-pack`. A shell runs the command; git adds the path. Settings on a command line
    take precedence over those of the repository.
    """
    options = _NOTHING_RUNS + _options(receive__autogc="false", receive__denyCurrentBranch="refuse")
    return " ".join(["GIT_ALLOW_PROTOCOL=none", "GIT_NO_LAZY_FETCH=1", "git", *options, verb])


def isolated_environment(**more: str) -> dict[str, str]:
    """Return the environment of a git that reads no configuration of the user, the system or a repository.

    Without `GIT_DIR` in `more` git uses no repository, not even one around its working folder.
    """
    return _inherited(_SYSTEM) | _FIXED | _NO_CONFIGURATION | {"GIT_DIR": os.devnull} | more


def user_environment(**more: str) -> dict[str, str]:
    """Return the whole environment of a git that reads the configuration of the user and the system."""
    return _inherited((*_SYSTEM, *_USER)) | _FIXED | {"GIT_ALLOW_PROTOCOL": "none"} | more


def remote_environment(**more: str) -> dict[str, str]:
    """Return the environment of a git that reaches a remote as the user does: agents, proxies and passwords included.

    Git's own variables are left out, except those that configure access to servers: git sets others for its hooks.
    """
    of_others = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    return of_others | _inherited(_REACHING) | _FIXED | more


def start_git(
    arguments: Sequence[str], environment: dict[str, str], folder: Path | str, *, errors: int = subprocess.PIPE
) -> subprocess.Popen[bytes]:
    """Start git in a folder, with pipes. Raises `FileNotFoundError` without git.

    Only absolute folders of PATH are searched: a relative one, and on Windows the working folder, may be the
    repository that is read.
    """
    places = (Path(place, _PROGRAM) for place in _path())
    program = next((str(one) for one in places if one.is_file() and os.access(one, os.X_OK)), "")
    if not program:
        raise FileNotFoundError("git is not installed")
    return subprocess.Popen(  # noqa: S603 - no shell; paths and revisions among the arguments are checked by the callers
        [program, "--no-pager", "--no-replace-objects", *arguments],
        env=environment,
        cwd=folder,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=errors,
    )


@contextmanager
def objects_of(clone: Path, *, sha256: bool = False) -> Iterator[Callable[..., tuple[int, bytes]]]:
    """Yield a function that asks git about the objects of a repository: arguments in, exit status and output out.

    git runs in an empty git folder of our own, which borrows the objects and nothing else.
    """
    git_dir = clone / ".git" if (clone / ".git").exists() else clone
    if git_dir.is_file():  # of a submodule, or of a work tree that was added
        git_dir = clone / git_dir.read_text(encoding="utf-8").removeprefix("gitdir:").strip()
    shared = git_dir / "commondir"
    common = git_dir / shared.read_text(encoding="utf-8").strip() if shared.is_file() else git_dir
    with tempfile.TemporaryDirectory(prefix="treering-git-") as own:
        for name in ("objects", "refs"):
            Path(own, name).mkdir()
        Path(own, "HEAD").write_text("ref: refs/heads/none\n", encoding="utf-8")
        extension = "[extensions]\n\tobjectFormat = sha256\n" if sha256 else ""
        version = f"[core]\n\trepositoryFormatVersion = {int(sha256)}\n\tbare = true\n"
        Path(own, "config").write_text(version + extension, encoding="utf-8")
        where = isolated_environment(GIT_DIR=own, GIT_OBJECT_DIRECTORY=str((common / "objects").resolve()))

        def ask(*arguments: str) -> tuple[int, bytes]:
            with start_git(arguments, where, own) as process:
                try:
                    output, _ = process.communicate(timeout=SECONDS)
                except subprocess.TimeoutExpired as error:
                    process.kill()
                    raise TimeoutError("git does not respond") from error
                except BaseException:  # Ctrl-C too: git must not outlive its caller
                    process.kill()
                    raise
                return process.returncode, output

        yield ask


def _inherited(names: Sequence[str]) -> dict[str, str]:
    # Not a setting of Treering: git's own variables are passed on unread.
    return {name: os.environ[name] for name in names if name in os.environ} | {"PATH": os.pathsep.join(_path())}


def _path() -> list[str]:
    return [folder for folder in os.environ.get("PATH", "").split(os.pathsep) if Path(folder).is_absolute()]
