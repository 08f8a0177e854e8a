"""Run Google ADK's tests of its memory service with a service over a space in its place."""

from collections import defaultdict
from types import SimpleNamespace

import google.adk.memory.in_memory_memory_service as in_memory
from suite_parts import client

from treering.google_adk import TreeringMemoryService

opened = []


class Service(TreeringMemoryService):
    """A `TreeringMemoryService` with the constructor of `InMemoryMemoryService`."""

    def __init__(self):
        opened.append(client())
        super().__init__(opened[-1])

    @property
    def _session_events(self):
        return Stored(self)


class Stored:
    """The stored events of users by session, as the suite reads them."""

    def __init__(self, service):
        self._service = service

    def __contains__(self, user):
        return True

    def __getitem__(self, user):
        collection = self._service._texts(*user.split("/"))._collection
        sessions = defaultdict(list)
        for record in self._service._client.records.all_of(collection):
            sessions[record.metadata.get("session_id")].append(SimpleNamespace(id=record.key))
        return sessions


in_memory.InMemoryMemoryService = Service


def pytest_unconfigure():
    for one in opened:
        one.close()
