"""Bounds of the resources of a server."""

MAX_CALL_THREADS = 64
"""Threads that answer calls, over HTTP and MCP together. As many as the requests that are processed at once, so that no
call waits for slow ones. A thread that reads a file has a page cache of up to 4 MiB."""
MAX_DATABASE_CALL_THREADS = 8
"""Threads that answer calls if the space is in a database: as many as a process has connections by default. Further
threads would wait for a connection, and fail after 20 s; a call that waits for a thread does not."""
