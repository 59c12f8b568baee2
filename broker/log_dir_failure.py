"""What a broker does when a log directory fails: it serves the others, and says so (edge).

Without any directory left it cannot go on.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path

import structlog

from broker.cluster.member import ClusterMember
from broker.network.request_tasks import RequestTasks
from broker.replication.replica_manager import ReplicaManager
from controller.notices import tell_log_dir_failure
from coordination.errors import SessionExpiredError
from storage.directory import Logs

log = structlog.get_logger(__name__)


class LogDirFailure:
    """Reacts from `watch` on; what fails earlier is found when replicas are opened."""

    def __init__(
        self,
        member: ClusterMember,
        tasks: RequestTasks,
        loop: asyncio.AbstractEventLoop,
        on_last: Callable[[str], None],
    ) -> None:
        """`on_last` is told why nothing can be served any more."""
        self._member = member
        self._tasks = tasks
        self._loop = loop
        self._on_last = on_last
        self._watched: tuple[Logs, ReplicaManager] | None = None

    def watch(self, logs: Logs, replicas: ReplicaManager) -> None:
        """Give up the replicas that fail with a directory from now on."""
        self._watched = logs, replicas

    def on_failed(self, path: Path) -> None:
        """Called in any thread: in the loop, see what is left."""
        self._loop.call_soon_threadsafe(self._give_up, path)

    def _give_up(self, path: Path) -> None:
        if self._watched is None:
            return
        logs, replicas = self._watched
        replicas.on_directory_failed(path)
        if logs.online_directories:
            self._tasks.begin(self._tell)
        else:
            self._on_last(f"log dir {path} failed, and no other is left")

    async def _tell(self) -> None:
        """Let the controller find out which replicas are lost."""
        try:
            await self._member.session.run(tell_log_dir_failure(self._member.identity.broker_id))
        except SessionExpiredError as error:
            # The next registration makes the controller ask for all replicas again.
            log.warning("log_dir.failure_not_told", error=str(error))
