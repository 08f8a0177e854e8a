"""Recognition of vendored code by its path."""

_VENDOR_FOLDERS = frozenset(
    "vendor vendored _vendor third_party third-party thirdparty node_modules bower_components site-packages".split()
)


def is_vendored(path: str) -> bool:
    """Return whether a path looks like a copy of another project."""
    return not _VENDOR_FOLDERS.isdisjoint(path.split("/")[:-1])
