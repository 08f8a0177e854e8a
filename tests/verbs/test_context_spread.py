"""Which passages share the budget of a context pack."""

from collections import Counter

from space_parts import note


def context(space, what, **options):
    return space.query("context", input={"task": what}, options=options).pack


def sources(pack):
    return Counter(item.object_id for item in pack.items)


def test_one_page_does_not_fill_a_pack_where_others_speak_of_the_task_too(space):
    page = "\n\n".join(
        f"# Uploads, part {at}\n\n" + f"The uploader retries uploads with backoff {at}. " + f"chapter{at} " * 30
        for at in range(12)
    )
    whole = note(space, page, origin="page.md", kind="markdown")["source_id"]
    others = {
        note(space, f"Uploads in module {at} are retried by the uploader. " + f"module{at} " * 30, origin=f"{at}.md")[
            "source_id"
        ]
        for at in range(6)
    }
    found = sources(context(space, "How does the uploader retry uploads with backoff?", max_tokens=1000))
    assert found[whole] <= 4
    assert len(found.keys() & others) >= 3


def test_where_only_one_page_speaks_of_the_task_it_fills_the_pack(space):
    page = "\n\n".join(f"# Uploads, part {at}\n\nThe uploader retries uploads with backoff {at}." for at in range(12))
    whole = note(space, page, origin="page.md", kind="markdown")["source_id"]
    segments = space.engine.ledger.get(whole).segments
    assert sources(context(space, "How does the uploader retry uploads with backoff?"))[whole] == len(segments) > 4


def test_turns_of_one_conversation_share_a_pack_without_a_cap(space):
    talk = [{"name": "Ann", "content": f"The uploader retries uploads with backoff {at}."} for at in range(30)]
    space.ingest("source", input={"items": [{"kind": "conversation", "origin": "talk", "messages": talk}]})
    for at in range(30):
        note(space, f"Retries of module {at}.", origin=f"{at}.md")
    found = sources(context(space, "How does the uploader retry uploads with backoff?", max_tokens=2000))
    assert max(found.values()) >= 20
