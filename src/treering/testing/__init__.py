"""For people who write backends: contract suites (they need pytest), honest fakes, values of adapters and formats."""

from treering.facades import lazily

__getattr__, __dir__ = lazily(__name__)
