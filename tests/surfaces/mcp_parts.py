"""Parts the MCP tests share: a small git repository, and calls through a real client."""

import os
import subprocess
import sys
import warnings
from pathlib import Path
from typing import Any

from mcp import Client, MCPDeprecationWarning, StdioServerParameters
from mcp_types import CallToolResult, TextContent

_ENVIRONMENT = {**os.environ, "TREERING_BACKGROUND": "0"}
_RETRY = '''"""Calls that are tried again."""

RETRY_LIMIT = 3


def retry(call):
    """Try a call up to RETRY_LIMIT times, waiting twice as long each time."""
    for _ in range(RETRY_LIMIT):
        call()
'''


def shop(folder: Path) -> Path:
    """Make a git repository of nine files."""
    root = folder / "shop"
    root.mkdir()
    (root / "retry.py").write_text(_RETRY)
    (root / "README.md").write_text("# Shop\n\nA small shop.\n\n## Payments\n\nPayments go through the gateway.\n")
    for word in ("carts", "coupons", "invoices", "parcels", "refunds", "taxes", "vouchers"):
        (root / f"{word}.md").write_text(
            f"# The {word}\n\nEvery shop has {word}, and this is where ours are told of.\n"
        )
    git(root, "init", "--quiet")
    commit(root, "First")
    return root


def commit(root: Path, message: str) -> None:
    """Commit everything."""
    git(root, "add", "--all")
    git(root, "-c", "user.name=Ada", "-c", "user.email=ada@example.org", "commit", "--quiet", "-m", message)


def git(root: Path, *arguments: str) -> None:
    """Run git in a folder."""
    subprocess.run(["git", "-C", str(root), *arguments], check=True, capture_output=True)


def over_stdio(address: str, *options: str, cwd: Path | None = None, **environment: str) -> StdioServerParameters:
    """Say how to start a real server as a process of its own."""
    return StdioServerParameters(
        command=sys.executable,
        args=["-m", "treering", "mcp", "--space", address, *options],
        cwd=cwd,
        env={**_ENVIRONMENT, **environment},
    )


class Caller:
    """Calls the tools by verb and mode."""

    def __init__(self, client: Client) -> None:
        self.client = client
        self.progress: list[tuple[float, float | None, str | None]] = []

    async def __call__(self, verb: str, mode: str, given: dict[str, Any] | None = None, **options: Any) -> Any:
        """Call a tool, and return its report as data. A call that fails fails the test."""
        result = await self.result(verb, mode, given, **options)
        assert not result.is_error, text_of(result)
        return result.structured_content

    async def result(self, verb: str, mode: str, given: dict[str, Any] | None = None, **options: Any) -> CallToolResult:
        """Call a tool, and return all that comes back."""
        arguments = {"mode": mode, "input": given or {}, "options": options}
        return await self.client.call_tool(f"wiki.{verb}", arguments, progress_callback=self._note)

    async def ping(self) -> None:
        """Ask for a sign of life, as clients of the handshake era do."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", MCPDeprecationWarning)  # the newest protocol has no ping
            await self.client.send_ping()

    async def _note(self, progress: float, total: float | None, message: str | None) -> None:
        self.progress.append((progress, total, message))


def text_of(result: CallToolResult) -> str:
    """Return what the model reads."""
    (block,) = result.content
    assert isinstance(block, TextContent)
    return block.text
