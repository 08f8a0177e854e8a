"""Forms that change something: only a page of this server may send them."""

from hmac import compare_digest
from urllib.parse import parse_qs

from starlette.requests import Request

from treering.core.errors import Denied, InvalidInput

TOKEN = "token"  # noqa: S105 - the name of a field
_MOST_BYTES = 64_000
_MOST_FIELDS = 20


async def read_form(request: Request, *, token: str) -> dict[str, str]:
    """Read a form. Raises `Denied` for one of another site, `InvalidInput` for one that is none or too large.

    A browser names the page's site in `Origin`; a program that sends none is refused as well. `token` is in each page
    of this server, which a page of another site cannot read.
    """
    host, origin = request.headers.get("host", ""), request.headers.get("origin", "")
    if origin.casefold() not in {f"http://{host}".casefold(), f"https://{host}".casefold()}:
        raise Denied("This form was not sent by a page of this server.", hint="Open the page here and send it again.")
    fields = _fields(await _body(request))
    if not compare_digest(fields.pop(TOKEN, "").encode(), token.encode()):
        raise Denied(
            "The form is older than this server.", hint="Open its page again, and send it from there.", details={}
        )
    return fields


async def _body(request: Request) -> bytes:
    label = request.headers.get("content-type", "").partition(";")[0].strip().casefold()
    if label != "application/x-www-form-urlencoded":
        raise InvalidInput(f"A form was expected, not {label!r}.", hint="Send it from the page.")
    kept = bytearray()
    async for chunk in request.stream():
        kept += chunk
        if len(kept) > _MOST_BYTES:
            raise InvalidInput(f"The form is larger than {_MOST_BYTES} bytes.", hint="Give a shorter reason.")
    return bytes(kept)


def _fields(body: bytes) -> dict[str, str]:
    try:
        read = parse_qs(body.decode(), keep_blank_values=True, max_num_fields=_MOST_FIELDS, errors="strict")
    except ValueError as error:
        raise InvalidInput(f"The form cannot be read: {error}.", hint="Send it from the page.") from error
    return {name: values[-1] for name, values in read.items()}
