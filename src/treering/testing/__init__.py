"""Tools for authors of backends: contract suites (with pytest), realistic fakes, values of adapters and formats."""

from treering.facades import lazily

__getattr__, __dir__ = lazily(__name__)
