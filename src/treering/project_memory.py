"""Project memory as plain functions: each call names a project and a folder.

from treering.project_memory import get_hipporag_kwargs, index, retrieve

index("acme-web", ["Sessions are stored in one SQLite file."], "memories", **get_hipporag_kwargs())
retrieve("acme-web", ["Where are sessions stored?"], "memories", num_to_retrieve=5, **get_hipporag_kwargs())

Folders stay open until the program ends. `treering.open_projects` is the same memory as an object.
"""

from treering.facades import lazily

__getattr__, __dir__ = lazily(__name__)
