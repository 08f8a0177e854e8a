"""Rules of the core for patches, tested through a ledger.

The core decides them, so they hold for every ledger that passes `LedgerContract`. Our own ledgers run them in addition.
"""

from ledger_rules.claims import ClaimRules
from ledger_rules.evidence import EvidenceRules, SummaryRules
from ledger_rules.objects import ObjectRules
from ledger_rules.policies import PolicyRules, ReviewRules
from ledger_rules.reverting import RevertRules
from ledger_rules.scopes import ScopeRules
from ledger_rules.work import WorkRules


class LedgerRules(
    ObjectRules,
    EvidenceRules,
    SummaryRules,
    ClaimRules,
    WorkRules,
    RevertRules,
    ReviewRules,
    PolicyRules,
    ScopeRules,
):
    """Inherit this in a test class and return the fixture `open_ledger`."""
