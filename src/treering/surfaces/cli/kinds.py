"""The kinds of what `crystallize` records, as people name them with `--kind`."""

from collections.abc import Mapping, Sequence
from typing import get_args

from treering.core.objects import Activity, WorkItem
from treering.verbs.crystallize.drafting import KnowledgeFields

KINDS: Mapping[str, Sequence[str]] = {
    "Knowledge": get_args(KnowledgeFields.model_fields["kind"].annotation),
    "Work": get_args(WorkItem.model_fields["kind"].annotation),
    "Activities": get_args(Activity.model_fields["kind"].annotation),
}
