"""Forms that change the cluster, each with a page that asks for confirmation (edge)."""

from collections.abc import Mapping
from http import HTTPStatus
from typing import Final
from urllib.parse import parse_qsl

from starlette.requests import ClientDisconnect, Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import BaseRoute, Route

from ottla.client.admin_model import ResourceType
from ottla.client.errors import OttlaError
from ottla.console.changes.change import AlterConfig, Change, DeleteTopic, parse_change
from ottla.console.changes.making import make
from ottla.console.pages.page import Page
from ottla.console.view.rendering import link
from ottla.console.web.console import Console

MAX_FORM_BYTES: Final = 64 * 1024
MAX_READ_BYTES: Final = 16 * 1024 * 1024
"""Size of a form that is refused with an answer; of a larger one the connection is closed."""
MAX_FIELDS: Final = 50
HIDDEN_FIELDS: Final = ("csrf", "confirmed", "typed")


class FormError(Exception):
    """The body of a request is not a form of this console; the message is one sentence."""

    def __init__(self, status: HTTPStatus, message: str) -> None:
        super().__init__(message)
        self.status = status


class ChangeRoutes:
    """The routes of the forms. A read-only console has none of them."""

    def __init__(self, console: Console) -> None:
        self._console = console

    def routes(self) -> list[BaseRoute]:
        """Return the routes."""
        if self._console.is_read_only:
            return []
        return [
            Route("/new-topic", self.form),
            Route("/change", self.change, methods=["POST"]),
        ]

    async def form(self, request: Request) -> Response:
        """Show the form of a new topic."""
        return self._form(request, {}, "")

    async def change(self, request: Request) -> Response:
        """Ask for confirmation of a change; carry it out once it is confirmed."""
        try:
            fields = await _fields(request)
        except FormError as error:
            return self._console.fail(request, error.status, "Not changed", str(error))
        if not self._console.access.is_form_secret(fields.get("csrf", "")):
            text = "This form is from an earlier run of the console: load its page again."
            return self._console.fail(request, HTTPStatus.FORBIDDEN, "Not changed", text)
        try:
            change = parse_change(fields)
        except ValueError as error:
            return self._problem(request, fields, str(error))
        typed = fields.get("typed", "").strip()
        if fields.get("confirmed") != "yes" or (change.typed and typed != change.typed):
            return self._confirmation(request, change, fields)
        try:
            await make(await self._console.admin(), change)
        except OttlaError as error:
            return self._problem(request, fields, str(error))
        self._console.collector.show()
        await self._console.collector.refresh()
        return RedirectResponse(_place_after(change), HTTPStatus.SEE_OTHER)

    def _confirmation(
        self, request: Request, change: Change, fields: Mapping[str, str]
    ) -> Response:
        kept = {key: value for key, value in fields.items() if key not in HIDDEN_FIELDS}
        page = Page(
            title=change.title,
            section="topics",
            template="confirm.html",
            values={
                "change": change,
                "fields": kept,
                "is_retyped": fields.get("confirmed") == "yes",
                "is_deletion": isinstance(change, DeleteTopic),
            },
        )
        return self._console.respond(request, page)

    def _problem(self, request: Request, fields: Mapping[str, str], text: str) -> Response:
        if fields.get("action") == "create":
            return self._form(request, fields, text)
        return self._console.fail(request, HTTPStatus.UNPROCESSABLE_ENTITY, "Not changed", text)

    def _form(self, request: Request, fields: Mapping[str, str], problem: str) -> Response:
        page = Page(
            title="New topic",
            section="topics",
            template="new_topic.html",
            values={"fields": fields, "problem": problem},
        )
        status = HTTPStatus.UNPROCESSABLE_ENTITY if problem else HTTPStatus.OK
        return self._console.respond(request, page, status=status)


async def _fields(request: Request) -> dict[str, str]:
    """Return the fields of a form.

    Raises:
        FormError: it is too large, or not a form.
    """
    body, size_bytes = b"", 0
    try:
        # A browser shows the answer only once its whole request was read.
        async for part in request.stream():
            size_bytes += len(part)
            if size_bytes <= MAX_FORM_BYTES:
                body += part
            elif size_bytes > MAX_READ_BYTES:
                break
        if size_bytes > MAX_FORM_BYTES:
            text = f"The form has more than {MAX_FORM_BYTES // 1024} KiB: shorten its fields."
            raise FormError(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, text)
        pairs = parse_qsl(body.decode("utf-8"), keep_blank_values=True, max_num_fields=MAX_FIELDS)
    except (ValueError, ClientDisconnect):
        text = f"The request is not a form of at most {MAX_FIELDS} fields in UTF-8."
        raise FormError(HTTPStatus.BAD_REQUEST, text) from None
    return dict(pairs)


def _place_after(change: Change) -> str:
    if isinstance(change, DeleteTopic):
        return link("/topics", done=change.done)
    if isinstance(change, AlterConfig):
        kind = "topic" if change.kind is ResourceType.TOPIC else "broker"
        return link("/configs", kind=kind, name=change.name, done=change.done)
    return link("/topic", name=change.topic, done=change.done)
