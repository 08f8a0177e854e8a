"""Postgres as a database that stores spaces. Nothing here imports its driver."""

from treering.spaces.backends import Backend, OpenStores, place

_HERE = "treering.extensions.postgres"

BACKEND: Backend[OpenStores] = Backend(
    place(f"{_HERE}.opening:open_stores"),
    extra="postgres",
    title="a Postgres database",
    access_keys=place(f"{_HERE}.access_keys:open_access_keys"),
    spaces_with_work=place(f"{_HERE}.opening:spaces_with_work"),
)
