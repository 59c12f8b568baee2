"""Pages about one thing that are not live: segments, configs and reports of audits (edge)."""

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route

from kafkawire.ids import TopicPartition
from ottla.client.admin_model import ConfigEntry, ResourceType
from ottla.console.changes.change import KINDS
from ottla.console.files.segment import Segment, Timeline, timeline
from ottla.console.files.segment_files import read_segments
from ottla.console.files.verdict import VerdictReport
from ottla.console.files.verdict_files import read_verdicts
from ottla.console.pages.live_pages import partition_of, require_broker, topic_of
from ottla.console.pages.page import MissingError, Page
from ottla.console.web.console import Console

SOURCES: Mapping[int, str] = {
    1: "topic",
    2: "broker, dynamic",
    3: "cluster, dynamic",
    4: "server.properties",
    5: "default",
    6: "logger",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class SegmentList:
    """The segments of a partition in one log directory."""

    log_dir: str
    segments: tuple[Segment, ...]
    timeline: Timeline | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicaSize:
    """A replica of a partition as a broker reports it."""

    broker_id: int
    log_dir: str
    size_bytes: int
    offset_lag: int
    is_leader: bool
    share: float
    """Size relative to the largest replica."""


class DetailRoutes:
    """The routes of these pages."""

    def __init__(self, console: Console) -> None:
        self._console = console

    def routes(self) -> list[BaseRoute]:
        """Return the routes."""
        return [
            Route("/segments", self.segments),
            Route("/configs", self.configs),
            Route("/reports", self.reports),
            Route("/report", self.report),
        ]

    async def segments(self, request: Request) -> Response:
        """Show the replicas of a partition, and its segments in the local log directories."""
        observation = await self._console.observed()
        name = request.query_params.get("topic", "")
        topic = topic_of(observation, name)
        partition = partition_of(observation, name, request.query_params.get("partition", "0"))
        problems, lists = [], []
        for log_dir in self._console.log_dirs:
            try:
                found = await asyncio.to_thread(read_segments, log_dir, partition)
            except OSError as error:
                problems.append(f"{log_dir} cannot be read: {error.strerror}")
                continue
            if found:
                lists.append(
                    SegmentList(
                        log_dir=str(log_dir), segments=tuple(found), timeline=timeline(found)
                    )
                )
        page = Page(
            title=name,
            section="topics",
            template="segments.html",
            values={
                "topic": topic,
                "partition": partition,
                "range": observation.ranges.get(partition),
                "replicas": self._replicas(partition),
                "lists": lists,
                "problems": problems,
                "has_log_dirs": bool(self._console.log_dirs),
            },
        )
        return self._console.respond(request, page)

    def _replicas(self, partition: TopicPartition) -> list[ReplicaSize]:
        observation = self._console.observation
        leaders = {
            each.leader
            for each in topic_of(observation, partition.topic).partitions
            if each.partition == partition.partition
        }
        found = [
            (directory, replica)
            for directory in observation.log_dirs
            for replica in directory.replicas
            if replica.topic_partition == partition
        ]
        largest = max((replica.size_bytes for _, replica in found), default=0) or 1
        return [
            ReplicaSize(
                broker_id=directory.broker_id,
                log_dir=directory.path,
                size_bytes=replica.size_bytes,
                offset_lag=replica.offset_lag,
                is_leader=directory.broker_id in leaders,
                share=replica.size_bytes / largest,
            )
            for directory, replica in sorted(found, key=lambda each: each[0].broker_id)
        ]

    async def configs(self, request: Request) -> Response:
        """Show the configs of a topic or broker."""
        kind = request.query_params.get("kind", "topic")
        name = request.query_params.get("name", "")
        if kind not in KINDS:
            raise MissingError(f"Nothing of kind {kind} has configs.")
        observation = await self._console.observed()
        if KINDS[kind] is ResourceType.TOPIC:
            topic_of(observation, name)
        elif name:
            # The client would wait for a broker that is down or was never there.
            require_broker(observation, name)
        admin = await self._console.admin()
        entries = await admin.describe_configs(KINDS[kind], name)
        wanted = request.query_params.get("filter", "").strip().lower()
        shown = [entry for key, entry in sorted(entries.items()) if wanted in key.lower()]
        # A stable sort: keys that were set come first.
        shown.sort(key=_is_default)
        page = Page(
            title=name if kind == "topic" else f"Broker {name}",
            section="topics" if kind == "topic" else "cluster",
            template="configs.html",
            values={
                "kind": kind,
                "name": name,
                "entries": shown,
                "total": len(entries),
                "filter": wanted,
                "sources": SOURCES,
            },
        )
        return self._console.respond(request, page)

    async def reports(self, request: Request) -> Response:
        """Show the verdicts of all audits in the folder of reports."""
        reports: list[VerdictReport] = []
        problems: list[str] = []
        if (folder := self._console.reports) is not None:
            try:
                reports, problems = await asyncio.to_thread(read_verdicts, folder)
            except OSError as error:
                problems = [f"{folder} cannot be read: {error.strerror}"]
        page = Page(
            title="Audits",
            section="audits",
            template="reports.html",
            values={"folder": folder, "reports": reports, "problems": problems},
        )
        return self._console.respond(request, page)

    async def report(self, request: Request) -> Response:
        """Show one verdict."""
        wanted = request.query_params.get("name", "")
        if (folder := self._console.reports) is not None:
            try:
                reports, _ = await asyncio.to_thread(read_verdicts, folder)
            except OSError as error:
                raise MissingError(f"{folder} cannot be read: {error.strerror}.") from error
            for each in reports:
                if each.name == wanted:
                    page = Page(
                        title=f"Audit {each.name}",
                        section="audits",
                        template="report.html",
                        values={"report": each},
                    )
                    return self._console.respond(request, page)
        raise MissingError(f"There is no report {wanted}.")


def _is_default(entry: ConfigEntry) -> bool:
    return entry.is_default
