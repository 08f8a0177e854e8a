"""The command `treering`, and `python -m treering`."""

import gc
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import NoReturn

_HOOKS = ("begin", "keep", "edit", "prompt", "failure", "asked")
_OBJECTS_LOADED = 500_000  # more than all modules create, so that the garbage collector does not run while they load


def main() -> None:
    """Run a command and exit with its code: in the resident process if there is one, else in this one.

    If a resident process is possible but not running, it is started for the next command.
    """
    try:
        from treering.extensions.resident import client
    except ModuleNotFoundError:
        run_here()
    arguments = sys.argv[1:]
    if arguments[:1] == [client.STAYS]:
        from treering.extensions.resident import process

        process.main(arguments[1:], run_here)
        return
    if not client.is_used(arguments):
        run_here()
    code = client.hand_over(arguments)
    if code is not None:
        raise SystemExit(code)
    if client.is_hook(arguments):  # before it answers, because a client may kill it after the answer
        client.start_resident(for_hooks=True)
        run_here()
    try:
        run_here()
    finally:
        client.start_resident()


def run_here() -> "NoReturn":
    """Answer a hook of a coding agent, which has no time for the whole command line; else run that."""
    gc.set_threshold(_OBJECTS_LOADED)
    try:
        if sys.argv[1:2] == ["session"] and len(sys.argv) == 3 and sys.argv[2] in _HOOKS:
            from treering.extensions.coding_agents import session_hooks

            raise SystemExit(session_hooks.run(sys.argv[2]))
        from treering.surfaces import cli

        cli.main()
    finally:
        gc.disable()  # the process ends; collecting all loaded modules would take longer than a hook's answer


if __name__ == "__main__":
    main()
