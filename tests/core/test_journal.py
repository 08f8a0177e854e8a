from treering.core.audit import GENESIS, Anchor
from treering.core.writing.journal import LogEnd, patch_of, proposal
from treering.testing.builders import Builder
from treering.testing.fakes import SteppingClock


def test_a_proposed_patch_is_read_back_from_its_record_as_it_was() -> None:
    clock = SteppingClock()
    make = Builder(clock)
    patch = make.patch(make.node("Hive"), reason="Found it.").model_copy(update={"scope": "/a"})
    end = LogEnd(Anchor(seq=0, hash=GENESIS), clock.now(), lambda: "evt:1")
    notice = proposal(patch, end, salt="5a17")
    assert patch_of(notice.record) == patch
