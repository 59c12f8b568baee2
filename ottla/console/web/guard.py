"""Refuses requests that do not come from a page of the console (edge).

Every request passes it, for any path. Three attacks end here: a page of another site that
sends changes (same origin and the secret of the form), a name that another site has bound to this
address (Host header), and clients without the token.
"""

from collections.abc import Collection, MutableMapping
from typing import Final
from urllib.parse import parse_qsl, urlencode

from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import cookie_parser
from starlette.responses import PlainTextResponse, RedirectResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from ottla.console.access.address import is_known_host, is_same_origin
from ottla.console.access.token import Access, cookie_name

HEADERS: Final = {
    # No script and no style inside pages, so that escaped text that slips through stays inert.
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; "
        "connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
    ),
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    # Not no-referrer, with which browsers hide the origin of forms.
    "Referrer-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
}
SAFE_METHODS: Final = ("GET", "HEAD")
TOKEN_PARAMETER: Final = "token"


class Guard:
    """The outermost application; it adds the headers of security to every response."""

    def __init__(self, app: ASGIApp, access: Access, host_names: Collection[str]) -> None:
        self._app = app
        self._access = access
        self._host_names = host_names

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request, or pass it on."""
        if scope["type"] != "http":
            return

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in HEADERS.items():
                    headers.setdefault(name, value)
                headers.setdefault("Cache-Control", "no-store")
            await send(message)

        answer = self._refusal(scope) or self._app
        await answer(scope, receive, send_with_headers)

    def _refusal(self, scope: MutableMapping[str, object]) -> Response | None:
        headers = Headers(scope=scope)
        host = headers.get("host", "")
        if len(headers.getlist("host")) != 1 or not is_known_host(host, self._host_names):
            return _refuse(421, "The console does not answer under this name: see --allow-host.")
        if scope["method"] not in SAFE_METHODS and not is_same_origin(headers.get("origin"), host):
            return _refuse(403, "Only a page of the console can send changes.")
        cookie = cookie_name(host)
        # Not http.cookies, which gives up at a cookie that is not of RFC 2109. Browsers send the
        # cookies of all programs on this host, whatever their ports.
        if self._access.may_enter(cookie_parser(headers.get("cookie", "")).get(cookie, "")):
            return None
        return self._enter(scope, cookie)

    def _enter(self, scope: MutableMapping[str, object], cookie: str) -> Response:
        query = scope["query_string"]
        assert isinstance(query, bytes)
        pairs = parse_qsl(query.decode("latin-1"), keep_blank_values=True)
        offered = [value for key, value in pairs if key == TOKEN_PARAMETER]
        if scope["method"] != "GET" or not offered or not self._access.is_token(offered[0]):
            return _refuse(401, "Open the address with the token that `ottla console` printed.")
        rest = urlencode([pair for pair in pairs if pair[0] != TOKEN_PARAMETER])
        # The path is the root: a path that begins with two slashes would name another host.
        response = RedirectResponse(f"/?{rest}" if rest else "/", status_code=303)
        response.set_cookie(cookie, self._access.cookie, httponly=True, samesite="strict")
        return response


def _refuse(status: int, text: str) -> Response:
    return PlainTextResponse(text + "\n", status_code=status)
