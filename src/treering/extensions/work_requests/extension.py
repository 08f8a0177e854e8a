"""Work items for tickets and `TODO` comments, proposed to reviewers."""

from treering.registry import Extension

EXTENSION = Extension(
    "work_requests",
    commands=("treering.extensions.work_requests.commands:add_proposing",),
    help="treering.extensions.work_requests.commands:HELP",
    operations="treering.extensions.work_requests.proposals:OPERATIONS",
)
