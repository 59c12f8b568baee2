"""Handles a failed log directory (edge).

`storage.disk.directory_health` notices the failure. The broker keeps serving the other directories,
and reports the failure to the controller. It stops when no directory is left.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path

import structlog

from broker.cluster.member import ClusterMember
from broker.network.request_tasks import RequestTasks
from broker.replication.replica_manager import ReplicaManager
from clusterstate.notifications import notify_log_dir_failure
from coordination.errors import SessionExpiredError
from storage.directory.logs import Logs

log = structlog.get_logger(__name__)


class LogDirFailure:
    """Handles failures after `watch`; opening the replicas finds earlier ones."""

    def __init__(
        self,
        member: ClusterMember,
        tasks: RequestTasks,
        loop: asyncio.AbstractEventLoop,
        on_last: Callable[[str], None],
    ) -> None:
        """Call `on_last` with the reason when no directory is left."""
        self._member = member
        self._tasks = tasks
        self._loop = loop
        self._on_last = on_last
        self._watched: tuple[Logs, ReplicaManager] | None = None

    def watch(self, logs: Logs, replicas: ReplicaManager) -> None:
        """From now on, take replicas offline when their directory fails.

        Raises:
            LogDirOfflineError: all directories have failed already.
        """
        self._watched = logs, replicas
        logs.table.check_any_online()

    def on_failed(self, path: Path) -> None:
        """Hand the failure to the loop. Safe to call from any thread."""
        self._loop.call_soon_threadsafe(self._give_up, path)

    def _give_up(self, path: Path) -> None:
        if self._watched is None:
            return
        logs, replicas = self._watched
        replicas.roles.on_directory_failed(path)
        if logs.table.online_directories:
            self._tasks.run(self._report)
        else:
            self._on_last(f"log dir {path} failed, and no other is left")

    async def _report(self) -> None:
        """Notify the controller, which then identifies the lost replicas."""
        try:
            await self._member.session.run(notify_log_dir_failure(self._member.identity.broker_id))
        except SessionExpiredError as error:
            # After the next registration the controller asks for all replicas again.
            log.warning("log_dir.failure_not_reported", error=str(error))
