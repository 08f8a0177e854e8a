"""Questions that a space must be able to answer."""

from treering.registry import Extension

EXTENSION = Extension(
    "exams",
    needs=("documents",),
    commands=("treering.extensions.exams.commands:add_exams",),
    help="treering.extensions.exams.commands:HELP",
    pages="treering.extensions.exams.web:PAGES",
)
