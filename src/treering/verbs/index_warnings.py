"""The warning of answers from an index that is behind the ledger. Needs no retrieval: writes give it, too."""


def behind_warning(behind: int) -> tuple[str, ...]:
    """Warn of new or changed objects that are not indexed yet."""
    if not behind:
        return ()
    return (f"The index is being rebuilt or updated: {behind} new or changed objects are not found yet.",)
