"""The methods `merge` and `sync` of an open space."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

from treering.core.errors import InvalidInput
from treering.core.objects import Source
from treering.extensions.sharing.merge_rules.merge import Merged
from treering.extensions.sharing.merging import MergeReport, log_name, merge_into
from treering.extensions.sharing.sync import SyncReport, SyncWishes
from treering.extensions.sharing.sync import sync as sync_ledger
from treering.extensions.sharing.sync_home import home_of_syncs
from treering.system.address import Address
from treering.system.settings import Settings
from treering.verbs.engine import Engine


def merge(engine: Engine, address: Address, other: Address | str) -> MergeReport:
    """Merge another space into an open one (`Space.merge`)."""
    erasing = partial(_erase_and_remember, engine)
    return merge_into(engine.ledger, address, other, by=engine.author, erasing=erasing)


def sync(
    engine: Engine, address: Address, remote: str = "", wishes: SyncWishes | None = None, *, folder: Path | None = None
) -> SyncReport:
    """Sync an open space with a remote (`Space.sync`)."""
    if address.file is None:
        raise InvalidInput(
            "Only a space in a file syncs.", hint="Merge its file into this space instead: `treering merge`."
        )
    ledger = engine.ledger
    wanted = replace(wishes or SyncWishes(), erasing=partial(_erase_and_remember, engine), progress=engine.progress)
    home = home_of_syncs(Settings.read().data_dir, address.file, log_name(ledger))
    return sync_ledger(ledger, home, remote, by=engine.author, folder=folder or Path.cwd(), wishes=wanted)


def _erase_and_remember(engine: Engine, sources: Sequence[Source], merge: Callable[[], Merged]) -> Merged:
    if not sources:
        return merge()
    # Imported here: hardly any merge erases.
    from treering.verbs.ingest.erased import erase_and_remember, passages_elsewhere

    repeated = passages_elsewhere(engine, sources)
    return erase_and_remember(engine, sources, merge, repeated=repeated)[0]
