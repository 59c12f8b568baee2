"""The web application of the console (composition)."""

from collections.abc import Collection
from http import HTTPStatus
from typing import Final

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Mount
from starlette.staticfiles import StaticFiles
from starlette.types import ASGIApp

from ottla.client.errors import OttlaError
from ottla.console.pages.page import MissingError
from ottla.console.web.change_routes import ChangeRoutes
from ottla.console.web.console import Console
from ottla.console.web.detail_routes import DetailRoutes
from ottla.console.web.guard import Guard
from ottla.console.web.live_routes import live_routes
from ottla.console.web.record_routes import record_routes

STATIC_PATH: Final = "/static"


def make_application(console: Console, host_names: Collection[str]) -> ASGIApp:
    """Return the application, which answers under IP addresses, localhost and `host_names`."""

    async def on_missing(request: Request, error: Exception) -> Response:
        return console.fail(request, HTTPStatus.NOT_FOUND, "Not found", str(error))

    async def on_client_error(request: Request, error: Exception) -> Response:
        title = "The cluster did not answer"
        return console.fail(request, HTTPStatus.BAD_GATEWAY, title, str(error))

    async def on_http_error(request: Request, error: Exception) -> Response:
        assert isinstance(error, HTTPException)
        status = HTTPStatus(error.status_code)
        return console.fail(request, status, status.phrase, f"{status.phrase}.")

    application = Starlette(
        routes=[
            *live_routes(console),
            *record_routes(console),
            *DetailRoutes(console).routes(),
            *ChangeRoutes(console).routes(),
            Mount(STATIC_PATH, StaticFiles(packages=[("ottla.console", "static")])),
        ],
        exception_handlers={
            MissingError: on_missing,
            OttlaError: on_client_error,
            HTTPException: on_http_error,
        },
    )
    return Guard(application, console.access, host_names)
