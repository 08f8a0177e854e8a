"""The command `treering`, and `python -m treering`."""

import sys

_HOOKS = (["session", "begin"], ["session", "keep"])


def main() -> None:
    """Run a command and leave with its exit code: in the resident process where one is there, else here.

    Where there could be one, it is started for the next.
    """
    from treering.surfaces.resident import client

    arguments = sys.argv[1:]
    if arguments[:1] == [client.STAYS]:
        from treering.surfaces.resident import process

        process.main(arguments[1:], run_here)
        return
    if not client.is_used(arguments):
        raise SystemExit(run_here())
    code = client.hand_over(arguments)
    if code is not None:
        raise SystemExit(code)
    try:
        code = run_here()
    finally:
        client.start_resident()
    raise SystemExit(code)


def run_here() -> int:
    """Answer a hook of a coding agent, which has no time for the whole command line; else run that."""
    if sys.argv[1:] in _HOOKS:
        from treering.parts.coding_agents import session_hooks

        return session_hooks.run(sys.argv[2])
    from treering.surfaces import cli

    return cli.main()


if __name__ == "__main__":
    main()
