"""A process that stores memories and prints each id when `store` has returned.

It goes on until it is killed from outside, or stores and retrieves as often as a third argument says.
"""

import itertools
import sys

import client_parts

path, name, *most = sys.argv[1:]
config = client_parts.config(
    backend="sqlite", sqlite={"path": path}, storage={"batch_size": 4}, compression={"min_size_bytes": 100}
)
client = client_parts.blocking(config)
for number in range(int(most[0])) if most else itertools.count():
    memory_id = client.store(f"Alignment {number} of {name}. " + "A long text of a run. " * 20)
    sys.stdout.write(f"{memory_id}\n")
    sys.stdout.flush()
    if most:
        client.retrieve("alignment of a run")
client.close()
