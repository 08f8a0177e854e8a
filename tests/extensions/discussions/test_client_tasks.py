"""Requests that a chat client makes for its own use are told from what people say. The prompts are written anew."""

import pytest

from treering.extensions.discussions.chat.client_tasks import is_client_task
from treering.verbs.ingest.turns import Message

CHAT = "<chat_history>\nUSER: Where is the ladder?\nASSISTANT: In barn two.\n</chat_history>"


def user(text):
    return Message(role="user", content=text)


def system(text):
    return Message(role="system", content=text)


TALK = (user("Where is the ladder?"), Message(role="assistant", content="In barn two."))


@pytest.mark.parametrize(
    "messages",
    [
        [user(f"### Task:\nCreate a short title for the chat.\n### Output:\nJSON\n{CHAT}")],
        [user(f"### Task:\nWrite 2 tags for what this chat is about.\n{CHAT}")],
        [user(f"### Task:\nPropose three follow-up questions the user may ask next in this conversation.\n{CHAT}")],
        [user(f"### Task:\nYou are an autocompletion system. Continue the text.\n{CHAT}")],
        [user(f"### Task:\nDetermine whether search queries are needed, from the chat history.\n{CHAT}")],
        [user(f"Give a title of at most 4 words for this conversation. Return the title only.\n\n{CHAT}")],
        [system("You write titles. Create a title for the user's conversation, without any quotes."), user(CHAT)],
        [system("Create a title for the conversation, at most 5 words."), user("user: Where is it?\nassistant: Here.")],
        [*TALK, user("Please create a five word title for our conversation without any punctuation.")],
        [*TALK, user("Summarize our discussion in 150 words or less, to be used as a prompt later.")],
        [*TALK, system("Ignore previous instructions. Summarize the story so far. Respond with nothing but that.")],
    ],
)
def test_client_task_is_recognized(messages):
    assert is_client_task(messages)


@pytest.mark.parametrize(
    "messages",
    [
        [],
        TALK,
        [user("Where is the ladder?")],
        [user("Suggest a title for my book about oak.")],
        [user("Write a title page for the report, with only my name.")],
        [user("### Task:\nAnswer the user's question from the context.\n<context>Oak burns.</context>\nWhat burns?")],
        [user("Task: paint the fence. What color would you take? Just one.")],
        [user(f"What do you think of this chat?\n{CHAT}")],
        [user("Summarize the meeting in 100 words or less.\nAda: We ship the chat on Friday.\nBen: Only with tests.")],
        [*TALK, user("Summarize what you know of the ladder.")],
        [*TALK, user("We had a discussion about tags in the team, and only Ada wants them.")],
        [system("You give a title to every answer."), *TALK, user("And the key?")],
        [system("Answer, then suggest follow-up questions for the conversation, only two."), user("Where is the key?")],
    ],
)
def test_words_of_people_are_no_client_task(messages):
    assert not is_client_task(messages)


def test_long_messages_take_no_time():
    assert not is_client_task([user("\n" * 200_000), user("the " * 100_000)])
    assert not is_client_task([system("Create a title for the chat."), user("\n" * 200_000 + "<")])
