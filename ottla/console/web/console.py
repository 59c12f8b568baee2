"""The parts that all routes share: samples, readers, templates, options (composition)."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from http import HTTPStatus
from pathlib import Path
from typing import Final

from starlette.requests import Request
from starlette.responses import HTMLResponse, Response

from ottla.client.admin.admin import Admin
from ottla.client.errors import NoBrokerAvailableError
from ottla.console.access.token import Access
from ottla.console.observation.collector import Collector
from ottla.console.observation.observation import Observation
from ottla.console.pages.page import Page
from ottla.console.records.reader import RecordReaders
from ottla.console.view.rendering import Renderer
from ottla.console.view.text import visible
from ottla.console.web.event_stream import EventStreams

START_TIMEOUT_S: Final = 3.0
"""Time for which the first page, or the first change, waits for the first sample."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Console:
    """One running console."""

    collector: Collector
    readers: RecordReaders
    renderer: Renderer
    streams: EventStreams
    access: Access
    is_read_only: bool
    log_dirs: tuple[Path, ...]
    reports: Path | None
    now_ms: Callable[[], int]

    @property
    def observation(self) -> Observation:
        """The latest samples."""
        return self.collector.observation

    async def admin(self) -> Admin:
        """Return the connection to the cluster; wait a moment for the first one.

        Raises:
            NoBrokerAvailableError: no broker could be reached yet.
        """
        if self.collector.admin is None:
            await self.observed()
        if self.collector.admin is None:
            raise NoBrokerAvailableError("no broker could be reached yet: try again in a moment")
        return self.collector.admin

    async def observed(self) -> Observation:
        """Return the latest samples; wait a moment for the first ones."""
        self.collector.show()
        if self.observation.cluster is None:
            await self.collector.changed(self.observation.version, START_TIMEOUT_S)
        return self.observation

    def fragment(self, page: Page) -> str:
        """Return the content of a page."""
        return self.renderer.render(page.template, {**page.values, **self._state()})

    def respond(
        self, request: Request, page: Page, *, stream: str = "", status: int = HTTPStatus.OK
    ) -> Response:
        """Return a whole page; its content is replaced by the events of the address `stream`."""
        self.collector.show()
        values = {
            **page.values,
            **self._state(),
            "page": page,
            "stream": stream,
            "done": DONE.get(request.query_params.get("done", ""), ""),
        }
        return HTMLResponse(self.renderer.render("page.html", values), status)

    def fail(self, request: Request, status: int, title: str, text: str) -> Response:
        """Return a page with one sentence about a failure."""
        page = Page(
            title=title,
            section="",
            template="failure.html",
            values={"text": visible(text), "status": status},
        )
        return self.respond(request, page, status=status)

    def _state(self) -> Mapping[str, object]:
        observation = self.observation
        return {
            "cluster": observation.cluster,
            "failures": observation.failures,
            "now_ms": self.now_ms(),
        }


DONE: Final[Mapping[str, str]] = {
    "created": "The topic was created.",
    "deleted": "The topic was deleted.",
    "extended": "The partitions were added.",
    "altered": "The config was changed.",
}
