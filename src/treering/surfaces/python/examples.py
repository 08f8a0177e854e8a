"""Examples of what each operation takes, as the contract shows them: what one wants, and the body that asks for it."""

from collections.abc import Mapping
from typing import Any

EXAMPLES: Mapping[str, Mapping[str, Mapping[str, Any]]] = {
    "wiki_ingest": {
        "keep a note": {
            "mode": "source",
            "input": {"items": [{"text": "Releases are cut on Tuesdays.", "origin": "note:releases"}]},
        },
        "how the last run stands": {"mode": "status"},
    },
    "wiki_query": {
        "what is known for a task": {"input": {"task": "prepare a release"}},
        "ranked hits, and why they rank": {
            "mode": "search",
            "input": {"text": "release"},
            "options": {"limit": 5, "explain": True},
        },
        "what changed": {"mode": "recent", "input": {"since": "2026-01-05T00:00:00Z"}},
    },
    "wiki_crystallize": {
        "a candidate decision": {
            "mode": "knowledge",
            "input": {
                "kind": "decision",
                "title": "Releases on Tuesdays",
                "payload": {"question": "When are releases cut?", "outcome": "On Tuesdays"},
            },
        },
        "work to do": {"mode": "work_item", "input": {"title": "Cut the next release", "priority": "high"}},
        "work done": {"input": {"title": "Cut a release", "outcome": "success"}},
    },
    "wiki_lint": {
        "look for broken form": {},
        "look for drifted meaning": {"mode": "semantic", "scope": "/"},
        "verify the audit log": {"mode": "audit", "options": {"limit": 20}},
    },
    "review_list": {
        "what waits for a decision": {},
    },
    "review_show": {
        "what a patch would change": {"input": {"patch_id": "patch:01kefz5b1jt7w2y9a5m3x8q6rv"}},
    },
    "review_apply": {
        "apply a patch": {"input": {"patch_id": "patch:01kefz5b1jt7w2y9a5m3x8q6rv"}},
    },
    "review_reject": {
        "turn a patch down": {
            "input": {"patch_id": "patch:01kefz5b1jt7w2y9a5m3x8q6rv"},
            "options": {"reason": "We use spaces"},
        },
    },
    "revert": {
        "take a patch back": {"input": {"patch_id": "patch:01kefz5b1jt7w2y9a5m3x8q6rv"}},
    },
    "erase": {
        "remove a source for good": {
            "input": {"ids": ["src:01kefz3m8qd5v2n7x4t9r6w0ya"]},
            "options": {"reason": "Asked by Ada"},
        },
    },
    "project_memory_index": {
        "two documents": {"docs": ["Ada Lovelace wrote the first program.", "Charles Babbage built engines."]},
        "what a document states": {
            "docs": ["Ada Lovelace worked with Charles Babbage."],
            "triples": [[{"subject": "Ada Lovelace", "relation": "worked with", "object": "Charles Babbage"}]],
        },
    },
    "project_memory_retrieve": {
        "one question": {"queries": ["Who wrote the first program?"], "num_to_retrieve": 2},
    },
    "project_memory_delete": {
        "one document": {"docs": ["Charles Babbage built engines."]},
    },
    "chat_completions": {
        "a chat that is remembered": {
            "model": "gpt-5-mini",
            "messages": [{"role": "user", "content": "When do we cut releases?"}],
            "user": "releases",
        },
    },
}
