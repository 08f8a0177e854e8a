"""The format of files of code: cut along their definitions, described by their outline."""

from treering.extensions.code.parsing.languages import language_of
from treering.extensions.code.parsing.outline import CodeOutline, OutlineProcess, OutlineStopped
from treering.extensions.code.parsing.segments import segment_code
from treering.sources.formats import CleanText, Cut, TextFormat
from treering.sources.reading.encodings import opening

_MAX_IMPORTS = 200
_MAX_SUMMARY_CHARS = 300
_OUTLINES = OutlineProcess()


def _is_code(path: str, head: bytes) -> bool:
    return language_of(path, opening(head)) is not None


def _language(path: str, text: str) -> str:
    language = language_of(path, text)
    return language.name if language else ""


def _cut(clean: CleanText) -> Cut:
    result = _OUTLINES.outline(clean.path, clean.text)
    outline, warning = (None, result.why) if isinstance(result, OutlineStopped) else (result, "")
    segments = segment_code(clean.path, clean.text, outline, commit=clean.commit, max_chars=clean.max_chars)
    return Cut(segments, language=clean.language, metadata=_described(outline) if outline else {}, warning=warning)


def _described(outline: CodeOutline) -> dict[str, object]:
    return {
        "symbols": len(outline.symbols),
        "imports": list(outline.imports[:_MAX_IMPORTS]),
        "summary": outline.module_doc[:_MAX_SUMMARY_CHARS],
    }


CODE = TextFormat("code", _is_code, _cut, language_of=_language)
