"""The command `treering`, and `python -m treering`."""

import sys

_HOOKS = (["session", "begin"], ["session", "keep"])


def main() -> None:
    """Answer a hook of a coding agent, which has no time for the whole command line; else run that."""
    if sys.argv[1:] in _HOOKS:
        from treering.parts.coding_agents import session_hooks

        raise SystemExit(session_hooks.run(sys.argv[2]))
    from treering.surfaces import cli

    cli.main()


if __name__ == "__main__":
    main()
