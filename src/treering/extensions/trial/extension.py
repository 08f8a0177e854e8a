"""`treering try`: a demonstration in the working folder."""

from treering.registry import Extension

EXTENSION = Extension(
    "trial",
    commands=("treering.extensions.trial.commands:add_trial",),
    help="treering.extensions.trial.commands:HELP",
)
