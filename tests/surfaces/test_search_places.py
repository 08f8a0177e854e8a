"""A search shows the lines of a file that a decision is based on."""

import treering
from treering.surfaces.search_text import fenced_hits
from treering.system.settings import Settings


def test_decision_is_shown_with_the_lines_it_cites(stage):
    stage.write({"limits.py": "A = 1\n\nMEMORY = 32 << 20\n"})
    stage.done("add", "limits.py")
    stage.done("decide", "Uploads use 32 MB of memory", "--because", "limits.py:3")
    with treering.open(Settings.read().space_address(), background=False) as space:
        (hit,) = (one for one in space.query("search", "/", {"text": "memory of uploads"}).hits if one.cites)
        assert (hit.kind, hit.cites) == ("decision", "limits.py:3")
        assert 'decision — based on "limits.py:3"' in fenced_hits([hit], ())
