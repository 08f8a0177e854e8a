"""Git repositories, and files of code."""

from treering.registry import Extension

EXTENSION = Extension(
    "code",
    commands=("treering.extensions.code.commands:add_watching", "treering.extensions.code.commands:add_hooks"),
    help="treering.extensions.code.commands:HELP",
    trees="treering.extensions.code.repository.work_trees:RepositoryTrees",
    code_links="treering.extensions.code.links.finder:FINDER",
    adapters={
        "repo": "treering.extensions.code.repository.repo:RepoAdapter",
    },
    formats={
        "manifest": "treering.extensions.code.manifest_format:MANIFEST",
        "code": "treering.extensions.code.format:CODE",
    },
)
