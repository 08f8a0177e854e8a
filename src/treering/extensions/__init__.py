"""The features outside the kernel: one folder for each extension, with its value in `extension.py`."""

BUILT_IN = (
    "documents",
    "code",
    "records",
    "sharing",
    "conversations",
    "encoder",
    "postgres",
    "engines",
    "mcp",
    "server",
    "projects",
    "statements",
    "discussions",
    "client",
    "wiki",
    "workflows",
    "checks",
    "exams",
    "coding_agents",
    "work_requests",
    "consolidation",
    "trial",
    "resident",
)
"""Names of the folders, in the order in which they are asked and listed."""
