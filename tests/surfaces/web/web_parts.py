"""A small space that has something on every page."""

from space_parts import decide, note, only_id, open_space, state_fact, task
from treering.core.policy import Policy
from treering.verbs.ingest.turns import Message

HOSTILE = "<script>alert(1)</script>\"'><img src=x onerror=alert(2)>{{7*7}}\u202e</textarea></pre>"
"""Markup that would run or close something if it were not escaped, and a mark that turns the direction of text."""

RETRIES = "# Retries\n\nA failed fetch is tried three times. Between tries the client waits half a second.\n"
SESSIONS = "# Sessions\n\nA session lives in a signed cookie for twelve hours. Nothing is kept on the server.\n"
RELEASES = "# Releases\n\nReleases are cut on Tuesdays from the main branch, after the gate is green.\n"
CHANGED = "# Retries\n\nA failed fetch is tried five times. Between tries the client waits half a second.\n"
ASKED = "My name is Ada. I like green tea and I work on the fetch client at Acme. " * 6
ANSWERED = "We decided that the fetch client retries three times and then tells Ada why. " * 6


def fill(address, mark=""):
    """Fill a new space; `mark` stands in every text that is written. Return ids by what they are."""
    mark = f" {mark}" if mark else ""
    with open_space(address) as space:
        retries = note(space, RETRIES + mark, origin=f"docs/retries.md{mark}", title=f"Retries{mark}")
        sessions = note(space, SESSIONS + mark, origin=f"docs/sessions.md{mark}", title=f"Sessions{mark}")
        releases = note(space, RELEASES + mark, origin=f"docs/releases.md{mark}", title=f"Releases{mark}")
        ids = {"source": sessions["source_id"], "segment": sessions["segment_id"]}
        ids["stale"] = decide(
            space,
            f"Retries are bounded{mark}",
            retries,
            payload={
                "question": f"How often is a failed fetch tried?{mark}",
                "outcome": f"Three times{mark}",
                "rationale": f"More tries hid outages for minutes.{mark}",
                "alternatives": [f"Try for ever{mark}"],
            },
        )
        ids["decision"] = decide(
            space,
            f"Sessions stay in cookies{mark}",
            sessions,
            payload={
                "question": f"Where do sessions live?{mark}",
                "outcome": f"In a signed cookie{mark}",
                "rationale": f"No store has to be run beside the service.{mark}",
            },
            summary=f"Sessions need no server-side store.{mark}",
        )
        ids["candidate"] = decide(space, f"Use one queue{mark}", kind="preference", payload={"statement": f"x{mark}"})
        ids["expired"] = decide(space, f"Freeze in May{mark}", releases, valid_until="2024-05-31T00:00:00Z")
        one = note(space, f"The default port is 8080.{mark}", origin=f"docs/ports.md{mark}", title="Ports")
        two = note(space, f"The default port is 9090.{mark}", origin=f"docs/old-ports.md{mark}", title="Old ports")
        state_fact(space, f"server{mark}", "port", f"8080{mark}", one)
        state_fact(space, f"server{mark}", "port", f"9090{mark}", two)
        ids["work"] = task(space, f"Document the port{mark}", summary=f"The page on ports is old.{mark}")
        ids["activity"] = only_id(
            space.crystallize(
                "activity", input={"title": f"Looked into slow fetches{mark}", "summary": f"Found.{mark}"}
            ),
            "act:",
        )
        space.crystallize(
            "knowledge",
            input={"id": ids["decision"], "summary": f"Sessions need no store on the server.{mark}"},
            options={"reason": f"Said more plainly{mark}"},
        )
        note(space, CHANGED + mark, origin=f"docs/retries.md{mark}", title=f"Retries{mark}")
        space.discussions().open("tea").record(
            [
                Message(role=role, content=f"{said} This was turn {turn}.{mark}")
                for turn, (role, said) in enumerate([("user", ASKED), ("assistant", ANSWERED)] * 12)
            ]
        )
        space.discussions().open("tea").update()
        user = space.engine.author.model_copy(update={"channel": "user"})
        direct = frozenset({"user", "adapter", "import", "system"})
        space.engine.ledger.change_policy(Policy(direct_channels=direct), by=user)
        robot = space.with_actor("robot", channel="agent")
        for name in ("tenant", "region"):
            proposal = robot.crystallize(
                "knowledge",
                input={
                    "kind": "constraint",
                    "title": f"One pool per {name}{mark}",
                    "payload": {"rule": f"Every {name} has a pool of its own.{mark}"},
                },
                options={"reason": f"Seen in an outage{mark}"},
            )
            ids[name] = next(identity for identity in proposal.ids if identity.startswith("patch:"))
        space.embed_pending()
    return ids
