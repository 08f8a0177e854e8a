"""The middle agent: it directs a coding agent through a ticket. Only it sees the memories of earlier tickets."""

import logging
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from flask import current_app

from treering import TreeringError

from . import memory

MAX_TURNS = 20
SYSTEM_PROMPT = (
    "You direct a coding agent through a ticket. Answer with JSON: complete, summary, next_prompt. Text after "
    "'Memories invoked:' is recall from earlier tickets, for your own reasoning; do not paste it into a prompt."
)


@dataclass
class Ticket:
    """A ticket of a project."""

    project_id: str
    title: str
    description: str = ""


def process_ticket(
    ticket: Ticket, ask_middle_agent: Callable[[str, str], dict[str, Any]], ask_coding_agent: Callable[[str], str]
) -> str | None:
    """Work on a ticket in an application context; return the summary, or `None` if it was not completed."""
    query = task = f"{ticket.title}. {ticket.description}"
    conversation = ""
    for _ in range(MAX_TURNS):
        decision = ask_middle_agent(SYSTEM_PROMPT, f"{_recalled(ticket, query)}Ticket: {task}\n{conversation}")
        if decision.get("complete"):
            summary = str(decision.get("summary", ""))
            _memory(memory.index, ticket, [f"Ticket: {task}. {summary}"])
            return summary
        prompt = decision["next_prompt"]
        response = ask_coding_agent(prompt)
        conversation += f"Prompt: {prompt}\nResponse: {response}\n"
        query = f"{prompt[:500]}\n{response[:500]}"
    return None


def _recalled(ticket: Ticket, query: str) -> str:
    found = _memory(memory.retrieve, ticket, [query]) or []
    docs = [doc for one in found for doc in one["docs"]]
    return "Memories invoked:\n" + "\n".join(docs) + "\n\n" if docs else ""


def _memory(work: Callable[..., Any], ticket: Ticket, texts: list[str]) -> Any:
    """Use the memory of the project; return `None` if there is none or it fails, so that the ticket continues."""
    folder = current_app.config.get("MEMORY_SAVE_DIR")
    try:
        return work(ticket.project_id, texts, folder, **memory.get_hipporag_kwargs()) if folder else None
    except TreeringError:
        logging.getLogger(__name__).warning("The memory of the project failed; the ticket continues.", exc_info=True)
        return None
