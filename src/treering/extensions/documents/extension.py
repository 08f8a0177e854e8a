"""Documents that are not plain text, and web pages."""

from treering.registry import Extension

EXTENSION = Extension(
    "documents",
    adapters={
        "url": "treering.extensions.documents.url:UrlAdapter",
    },
    formats={
        "pdf": "treering.extensions.documents.formats:PDF",
        "office": "treering.extensions.documents.formats:OFFICE",
        "mail": "treering.extensions.documents.formats:MAIL",
        "html": "treering.extensions.documents.formats:HTML",
        "notebook": "treering.extensions.documents.structured:NotebookFormat",
        "openapi": "treering.extensions.documents.structured:OpenApiFormat",
    },
)
