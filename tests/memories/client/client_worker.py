"""A process that stores memories and prints each id when `store` has returned. It is killed from outside."""

import sys

import client_parts

path, name = sys.argv[1:]
config = client_parts.config(
    backend="sqlite", sqlite={"path": path}, storage={"batch_size": 4}, compression={"min_size_bytes": 100}
)
client = client_parts.blocking(config)
number = 0
while True:
    memory_id = client.store(f"Alignment {number} of {name}. " + "A long text of a run. " * 20)
    sys.stdout.write(f"{memory_id}\n")
    sys.stdout.flush()
    number += 1
