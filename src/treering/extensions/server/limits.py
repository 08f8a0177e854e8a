"""Bounds of the resources of a server."""

MAX_CALL_THREADS = 64
"""Threads that answer calls, over HTTP and MCP together. As many as the requests that are processed at once, so that no
call waits for slow ones. A thread that reads a file has a page cache of up to 4 MiB."""
