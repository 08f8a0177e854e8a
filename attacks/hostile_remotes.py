"""Places to sync with that were made to run a command: shared folders that became repositories, shipped caches."""

from collections.abc import Callable, Mapping
from pathlib import Path

from attacks.hostile_repositories import git, repository

_HOOKS = (
    "pre-receive update post-receive post-update reference-transaction proc-receive push-to-checkout pre-auto-gc "
    "post-index-change pre-push"
).split()


def _command(marker: Path) -> str:
    return f"echo ran >> '{marker}'"


def _script(file: Path, marker: Path) -> Path:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(f"#!/bin/sh\n{_command(marker)}\n")
    file.chmod(0o755)
    return file


def hooked(folder: Path, marker: Path) -> None:
    """Give a bare repository every hook that a fetch or a push runs, in its own folder and in another one."""
    for name in _HOOKS:
        _script(folder / "hooks" / name, marker)
        _script(folder / "more" / name, marker)
    with (folder / "config").open("a") as config:
        config.write(f"[core]\n\thooksPath = {folder / 'more'}\n")


def configured(folder: Path, marker: Path) -> None:
    """Name commands in the configuration of a bare repository, some in a file it includes."""
    script = _script(folder / "run.sh", marker)
    (folder / "objects" / "info").mkdir(exist_ok=True)
    git(folder.parent, "init", "-q", "--bare", "--template=", "lent")
    (folder / "objects" / "info" / "alternates").write_text(f"{folder.parent / 'lent' / 'objects'}\n")
    keys = ("core.fsmonitor", "core.sshCommand", "core.alternateRefsCommand", "core.pager", "core.gitProxy")
    keys += ("uploadpack.packObjectsHook", "gc.recentObjectsHook", "alias.receive-pack", "alias.upload-pack")
    keys += ("core.editor", "core.askPass", "credential.helper", "gpg.program")
    lines = [f"[{key.split('.')[0]}]\n\t{key.split('.')[1]} = {script}\n" for key in keys]
    (folder / "more.config").write_text("".join(lines))
    with (folder / "config").open("a") as config:
        config.write("".join(lines) + f"[include]\n\tpath = {folder / 'more.config'}\n[gc]\n\tauto = 1\n")


def promised(folder: Path, marker: Path) -> None:
    """Have a bare repository ask a command for what it lacks: what a ref of ours names."""
    (folder / "refs" / "treering").mkdir(parents=True, exist_ok=True)
    (folder / "refs" / "treering" / ("a" * 32)).write_text("1" * 40 + "\n")
    script = _script(folder / "run.sh", marker)
    with (folder / "config").open("a") as config:
        config.write(
            "[core]\n\trepositoryformatversion = 1\n[extensions]\n\tpartialClone = origin\n"
            f'[remote "origin"]\n\tpromisor = true\n\turl = ext::{script}\n\tuploadpack = {script}\n'
            f'[protocol]\n\tallow = always\n[protocol "ext"]\n\tallow = always\n'
        )


def checked_out(folder: Path, marker: Path) -> None:
    """Have a push update a work tree, which runs the filters that its attributes name."""
    tree = folder.parent / "tree"
    tree.mkdir(exist_ok=True)
    script = _script(folder / "run.sh", marker)
    (folder / "info").mkdir(exist_ok=True)
    (folder / "info" / "attributes").write_text("* filter=run\n")
    (folder / "HEAD").write_text("ref: refs/treering/" + "b" * 32 + "\n")
    with (folder / "config").open("a") as config:
        config.write(
            f"[core]\n\tbare = false\n\tworktree = {tree}\n[receive]\n\tdenyCurrentBranch = updateInstead\n"
            f'[filter "run"]\n\tsmudge = {script}\n\tclean = {script}\n\trequired = true\n'
        )


REMOTES: Mapping[str, Callable[[Path, Path], None]] = {
    "hooks": hooked,
    "configured commands": configured,
    "a promisor": promised,
    "a work tree": checked_out,
}
"""Ways in which a bare repository runs a command of its own when it is fetched from or pushed to."""


def bare(folder: Path, arm: Callable[[Path, Path], None], marker: Path) -> Path:
    """Make a folder a bare repository that runs a command, as a member of a team can with a shared one."""
    folder.mkdir(parents=True, exist_ok=True)
    git(folder, "init", "-q", "--bare", "--template=", ".")
    arm(folder, marker)
    return folder


def shipped_cache(cache: Path, marker: Path) -> None:
    """Lay a copy of a git remote next to a space, as a cloned repository can bring it along in plain files."""
    for name in ("objects", "refs"):
        (cache / name).mkdir(parents=True, exist_ok=True)
    (cache / "HEAD").write_text("ref: refs/heads/main\n")
    script = _script(cache / "run.sh", marker)
    (cache / "config").write_text(
        f'[url "ext::sh {script} "]\n\tinsteadOf = /\n\tinsteadOf = file:\n\tinsteadOf = https:\n'
        '[protocol]\n\tallow = always\n[protocol "ext"]\n\tallow = always\n'
        f"[core]\n\tfsmonitor = {script}\n\tsshCommand = {script}\n\thooksPath = {cache / 'hooks'}\n"
    )
    for name in _HOOKS:
        _script(cache / "hooks" / name, marker)


def clone_that_fetches(folder: Path, marker: Path, **files: str) -> Path:
    """Make a clone that lacks its files, and names a command to ask for them."""
    made = repository(folder, **files)
    for path in files:
        blob = git(made, "rev-parse", f"HEAD:{path}")
        (made / ".git" / "objects" / blob[:2] / blob[2:]).unlink()
    script = _script(made / ".git" / "run.sh", marker)
    with (made / ".git" / "config").open("a") as config:
        config.write(
            f"[core]\n\trepositoryformatversion = 1\n\tfsmonitor = {script}\n\tsshCommand = {script}\n"
            f'[extensions]\n\tpartialClone = origin\n[remote "origin"]\n\tpromisor = true\n\turl = ext::sh {script}\n'
            f'\tuploadpack = {script}\n[protocol]\n\tallow = always\n[protocol "ext"]\n\tallow = always\n'
        )
    return made
