"""The command that serves spaces over HTTP."""

from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from typer import Option, Typer

from treering.core.errors import InvalidInput, MissingExtra
from treering.registry import extensions, load
from treering.surfaces.cli.flags import spread
from treering.surfaces.cli.help import Command, CommandHelp
from treering.surfaces.cli.printing import say, tell

if TYPE_CHECKING:
    from treering.extensions.server.app import Serving
    from treering.extensions.server.callers import Bounds
    from treering.system.address import Address
    from treering.system.settings import Settings

_EXTRA = "server"
_OF_THE_EXTRA = {"fastapi", "httpx", "prometheus_client", "uvicorn"}


def add_serving(app: Typer) -> None:
    """Add the command to the command line."""
    further = {part.name: load(part.serve_flags) for part in extensions() if part.serve_flags}
    app.command("serve", cls=Command)(spread(serve, further))


@dataclass(frozen=True, slots=True)
class OfferFlags:
    """The space to serve, and the rights of callers."""

    space: Annotated[
        str, Option("--space", metavar="ADDRESS", help="The space of the four tools; as in every command.")
    ] = ""
    files: Annotated[
        Path | None,
        Option("--files", metavar="FOLDER", help="Let ingest read the files in this folder. Default: no files."),
    ] = None
    allow: Annotated[
        list[str] | None,
        Option(
            "--allow",
            metavar="WHAT",
            help="review: callers may decide like a person. erase: they may also erase. Default: neither.",
        ),
    ] = None
    allow_urls: Annotated[
        bool, Option("--allow-urls", help="Let callers with the right write ingest web pages. Default: none.")
    ] = False


@dataclass(frozen=True, slots=True)
class ReachFlags:
    """The address of the server, and access from other machines."""

    keys: Annotated[
        str,
        Option(
            "--keys",
            metavar="PLACE",
            help="Require a key stored there (see `treering key`). Default: required from other machines, and from "
            "this one if the space has keys.",
        ),
    ] = ""
    host: Annotated[
        str, Option("--host", metavar="NAME", help="The name or address to listen on; other machines need keys.")
    ] = "127.0.0.1"
    port: Annotated[
        int, Option("--port", metavar="N", min=0, max=65535, help="The port to listen on; 0 picks a free one.")
    ] = 8420
    cert: Annotated[
        Path | None, Option("--tls-cert", metavar="FILE", help="Serve TLS with this certificate (PEM).")
    ] = None
    key: Annotated[Path | None, Option("--tls-key", metavar="FILE", help="The certificate's private key (PEM).")] = None
    proxies: Annotated[
        list[str] | None,
        Option(
            "--behind-proxy",
            metavar="ADDRESS",
            help="A proxy or network whose forwarded client addresses are trusted; repeatable. Needs keys.",
        ),
    ] = None


@dataclass(frozen=True, slots=True)
class DeadlineFlags:
    """Time limits of calls."""

    reading: Annotated[
        float, Option("--timeout", metavar="SECONDS", min=1, help="Time limit of a query or retrieve.")
    ] = 30.0
    working: Annotated[
        float, Option("--work-timeout", metavar="SECONDS", min=1, help="Time limit of any other call.")
    ] = 3_600.0
    arriving: Annotated[
        float, Option("--arrival-timeout", metavar="SECONDS", min=1, help="Time limit for a request to arrive.")
    ] = 10.0


@dataclass(frozen=True, slots=True)
class OperationFlags:
    """Logs, metrics and the end of the server."""

    log_format: Annotated[
        str,
        Option("--log-format", metavar="json|text", help="Log every request, without content. Default: warnings only."),
    ] = ""
    metrics_to_all: Annotated[
        bool, Option("--metrics-to-all", help="Answer /metrics without a key. Default: only keys with the right admin.")
    ] = False
    stopping: Annotated[
        float,
        Option(
            "--stop-timeout",
            metavar="SECONDS",
            min=0,
            help="Time that running calls get to finish when the server stops.",
        ),
    ] = 10.0


@dataclass(frozen=True, slots=True)
class LimitFlags:
    """Limits of requests."""

    per_minute: Annotated[
        int | None,
        Option(
            "--requests-per-minute",
            metavar="N",
            min=1,
            help="Default limit per key; without keys, the limit for all programs. Default: 1200; without keys, none.",
        ),
    ] = None
    at_once: Annotated[
        int, Option("--at-once", metavar="N", min=1, help="Default limit of concurrent requests per key.")
    ] = 16
    max_body: Annotated[
        int, Option("--max-body", metavar="BYTES", min=1, help="The largest request; a key may have a lower limit.")
    ] = 20_000_000
    max_upload: Annotated[
        int, Option("--max-upload", metavar="BYTES", min=1, help="The largest file that may be uploaded.")
    ] = 200_000_000


def serve(
    offered: OfferFlags,
    reached: ReachFlags,
    waiting: DeadlineFlags,
    limits: LimitFlags,
    running: OperationFlags,
    parts: dict[str, Any],
) -> None:
    """Serve the four tools, project memory and chats with memory over HTTP.

    Other machines need keys (`treering key create`); this machine needs one only if the space has keys. Prints its
    address and runs until stopped (Ctrl-C); /openapi.json describes the API. The API at --upstream answers the chats.
    """
    try:
        from treering.extensions.server.serving import Certificate, Transport, proxies_of, serve_until_stopped
    except ModuleNotFoundError as error:
        if error.name not in _OF_THE_EXTRA:
            raise
        raise MissingExtra(_EXTRA, needed_for="`treering serve`") from error
    from treering.extensions.server.request_log import log_format_of
    from treering.ports.runtime import end_loading
    from treering.system.settings import Settings

    serving = _serving(
        offered, reached, _bounds(waiting, limits, running), parts, metrics_to_all=running.metrics_to_all
    )
    end_loading()
    serve_until_stopped(
        serving,
        host=reached.host,
        port=reached.port,
        tell=partial(_report_start, space=Settings.read().space_address(serving.space), keys=serving.keys),
        transport=Transport(Certificate.of(reached.cert, reached.key), proxies_of(reached.proxies or ())),
        log_format=log_format_of(running.log_format),
    )


def _report_start(place: str, *, space: "Address", keys: "Address | None") -> None:
    from treering.extensions.server.keys import opens, space_name
    from treering.extensions.server.serving import has_keys

    say(f"Treering listens on {place}")
    if keys is not None:
        say(f"Requests need a key stored in {keys.file or keys}.")
        if not has_keys(space, keys, opens):  # those stored may be for projects, which this server opens as well
            tell(
                f"Warning: no key opens {space_name(space, keys)}. Make one with `treering key create NAME --space …`."
            )
    else:
        say("No key is required: every program on this machine can read and change the space.")
    if space.file is not None and not space.file.exists():
        tell(f"Warning: there is no space at {space.file} yet. The first write creates it; until then, reads fail.")


def _serving(
    offered: OfferFlags, reached: ReachFlags, bounds: "Bounds", parts: dict[str, Any], *, metrics_to_all: bool
) -> "Serving":
    """Return the settings of the server. Raises `InvalidInput` if --files is not a folder or --allow is unknown."""
    from treering.extensions.server.app import Serving
    from treering.extensions.server.served import allowed
    from treering.spaces.wiring import open_embedder
    from treering.system.settings import Settings

    if offered.files and not offered.files.is_dir():
        raise InvalidInput(f"{offered.files} is not a folder.", hint="Give --files an existing folder.")
    settings = Settings.read()
    address = settings.space_address(offered.space or None)
    return Serving(
        space=address,
        files=offered.files,
        urls=offered.allow_urls,
        allow=allowed(offered.allow or ()),
        keys=_required_keys(reached, address, settings),
        bounds=bounds,
        metrics_to_all=metrics_to_all,
        background=settings.background,
        embedder=open_embedder(settings),  # one for all spaces, because it takes much memory
        parts={name: flags.chosen(settings) for name, flags in parts.items()},
    )


def _required_keys(reached: ReachFlags, space: "Address", settings: "Settings") -> "Address | None":
    """Return the location of the keys that requests need; `None` if they need none."""
    from treering.extensions.server.request_guard import is_loopback
    from treering.extensions.server.serving import has_keys

    place = settings.keys_address(reached.keys or None, space=space)
    is_for_others = bool(reached.keys or reached.proxies) or not is_loopback(reached.host)
    return place if is_for_others or has_keys(space, place) else None


def _bounds(waiting: DeadlineFlags, limits: LimitFlags, running: OperationFlags) -> "Bounds":
    from treering.extensions.server.callers import Bounds

    return Bounds(
        max_body_bytes=limits.max_body,
        max_upload_bytes=limits.max_upload,
        most_of_a_key=limits.at_once,
        requests_per_minute=limits.per_minute or Bounds().requests_per_minute,
        requests_per_minute_without_key=limits.per_minute,
        stop_seconds=running.stopping,
        read_seconds=waiting.reading,
        work_seconds=waiting.working,
        header_seconds=waiting.arriving,
        body_seconds=waiting.arriving,
    )


HELP = CommandHelp(
    groups={"Serve others": ("serve", "key")},
    examples={
        "serve": (
            ("the nearest space and all projects, on port 8420", "treering serve"),
            ("on a free port, with access to the files of this folder", "treering serve --port 0 --files ."),
            ("with memory for chats with a model server", "treering serve --upstream http://127.0.0.1:11434/v1"),
            ("for other machines, after `treering key create`", "treering serve --host 0.0.0.0"),
            ("the same over TLS", "treering serve --host 0.0.0.0 --tls-cert server.pem --tls-key server-key.pem"),
        ),
        "key create": (
            (
                "for an agent that reads and writes, for three months",
                "treering key create ci --right write --expires 90d",
            ),
            ("for a team, in its part of the space", "treering key create web-team --right write --scope /web"),
            ("for the memory of one project", "treering key create acme-bot --right write --project acme"),
            ("for a bot, with a lower rate limit", "treering key create bot --requests-per-minute 60"),
            ("for a person who reviews patches", "treering key create ada --right review --person"),
        ),
        "key list": (("all keys, with their last use", "treering key list"),),
        "key revoke": (("a lost key", "treering key revoke ci"),),
    },
)
