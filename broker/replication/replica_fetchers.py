"""The fetchers of this broker, one or more for each leader that it follows (edge).

Invariant: a partition is copied by at most one fetcher, from the leader that the controller named.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from zlib import crc32

import structlog

from broker.cluster.control_fence import ControlFence
from broker.cluster.metadata_cache import Endpoint
from broker.cluster.peer import Peer
from broker.cluster.peer_security import PeerSecurity
from broker.config.replication_keys import RACK_AWARE_SELECTOR, ReplicationKeys
from broker.replication.fetcher import Fetcher
from broker.replication.replica import Replica
from broker.replication.replica_table import Key, ReplicaTable
from broker.replication.replication_throttle import ReplicationThrottle
from kafkawire.ids import BrokerId, TopicPartition
from kafkawire.sentinels import NO_LEADER
from storage.directory.logs import Logs

FetcherId = tuple[BrokerId, int]
"""A leader, and the index of one of the `num.replica.fetchers` connections to it."""

log = structlog.get_logger(__name__)


class ReplicaFetchers:
    """Starts and stops fetchers as partitions are added and removed."""

    def __init__(
        self,
        broker_id: BrokerId,
        *,
        table: ReplicaTable,
        logs: Logs,
        endpoint_of: Callable[[BrokerId], Endpoint | None],
        security: PeerSecurity | None,
        fence: ControlFence,
        throttle: ReplicationThrottle,
        config: ReplicationKeys,
        loop: asyncio.AbstractEventLoop,
        now_ms: Callable[[], int],
        clock_ms: Callable[[], int],
    ) -> None:
        self._broker_id = broker_id
        self._table = table
        self._logs = logs
        self._endpoint_of = endpoint_of
        self._security = security
        self._fence = fence
        self._throttle = throttle
        self._config = config
        self._loop = loop
        self._now_ms = now_ms
        self._clock_ms = clock_ms
        # Only then do consumers wait for the progress of a follower.
        self._serves_consumers = config.replica_selector_class == RACK_AWARE_SELECTOR
        self._fetchers: dict[FetcherId, Fetcher] = {}
        self._home: dict[Key, FetcherId] = {}
        # Replicas whose leader is dead or has no known address.
        self._waiting: dict[Key, None] = {}
        self._ending: set[asyncio.Task[None]] = set()
        self._restart: asyncio.TimerHandle | None = None

    def add(self, replicas: Iterable[Replica]) -> None:
        """Copy partitions from their leaders from now on."""
        by_fetcher: dict[FetcherId, list[Replica]] = {}
        for replica in replicas:
            key = replica.topic_partition
            self._waiting.pop(key, None)
            if replica.leader == NO_LEADER:
                continue
            if self._endpoint_of(replica.leader) is None:
                self._waiting[key] = None
                continue
            by_fetcher.setdefault(self._fetcher_of(replica), []).append(replica)
        for fetcher_id, group in by_fetcher.items():
            self._prepare(group)
            self._home.update((replica.topic_partition, fetcher_id) for replica in group)
            self._fetcher(fetcher_id).add(group)

    def lags(self) -> Iterator[tuple[FetcherId, list[tuple[TopicPartition, int]]]]:
        """Yield each fetcher with the lag of its partitions, in records."""
        for fetcher_id, fetcher in list(self._fetchers.items()):
            yield fetcher_id, fetcher.lags

    def remove(self, keys: Iterable[Key]) -> None:
        """Stop copying partitions."""
        by_fetcher: dict[FetcherId, list[Key]] = {}
        for key in keys:
            self._waiting.pop(key, None)
            home = self._home.pop(key, None)
            if home is not None:
                by_fetcher.setdefault(home, []).append(key)
        for fetcher_id, group in by_fetcher.items():
            self._fetchers[fetcher_id].remove(group)
            if self._fetchers[fetcher_id].is_idle:
                self._end(fetcher_id)

    def on_metadata_changed(self) -> None:
        """Start replicas that waited for an address, and reconnect to leaders that have moved."""
        for fetcher_id, fetcher in list(self._fetchers.items()):
            endpoint = self._endpoint_of(fetcher_id[0])
            if endpoint is not None and endpoint != fetcher.peer.endpoint:
                moved = [key for key, home in self._home.items() if home == fetcher_id]
                self.remove(moved)
                self._waiting.update(dict.fromkeys(moved))
        if self._waiting:
            found = [self._table.by_key.get(key) for key in self._waiting]
            self.add([replica for replica in found if replica is not None])

    async def stop(self) -> None:
        """Stop all fetchers."""
        if self._restart is not None:
            self._restart.cancel()
        for fetcher_id in list(self._fetchers):
            self._end(fetcher_id)
        self._home.clear()
        self._waiting.clear()
        if self._ending:
            await asyncio.wait(self._ending)

    def _fetcher_of(self, replica: Replica) -> FetcherId:
        topic, partition = replica.topic_partition
        # The first partitions of all topics are spread, too; they may be the only ones.
        place = crc32(topic.encode()) + partition
        return replica.leader, place % max(1, self._config.num_replica_fetchers)

    def _fetcher(self, fetcher_id: FetcherId) -> Fetcher:
        fetcher = self._fetchers.get(fetcher_id)
        if fetcher is None:
            leader, index = fetcher_id
            endpoint = self._endpoint_of(leader)
            assert endpoint is not None, "the address was known in this turn of the event loop"
            peer = Peer(
                endpoint,
                loop=self._loop,
                client_id=f"broker-{self._broker_id}-fetcher-{index}",
                timeout_ms=self._config.replica_socket_timeout_ms,
                security=self._security,
            )
            fetcher = self._fetchers[fetcher_id] = Fetcher(
                self._broker_id,
                peer,
                fence=self._fence,
                logs=self._logs,
                throttle=self._throttle,
                config=self._config,
                loop=self._loop,
                now_ms=self._now_ms,
                clock_ms=self._clock_ms,
                on_progress=self._table.events.changed if self._serves_consumers else None,
            )
            fetcher.task.add_done_callback(partial(self._on_end, fetcher_id, fetcher))
        return fetcher

    def _on_end(self, fetcher_id: FetcherId, fetcher: Fetcher, task: asyncio.Task[None]) -> None:
        """Replace a fetcher that a bug has ended, after a pause."""
        if task.cancelled() or (error := task.exception()) is None:
            return
        log.error("fetcher.failed", leader=fetcher.peer.name, exc_info=error)
        if self._fetchers.get(fetcher_id) is not fetcher:
            return
        del self._fetchers[fetcher_id]
        left = [key for key, home in self._home.items() if home == fetcher_id]
        for key in left:
            del self._home[key]
        self._waiting.update(dict.fromkeys(left))
        pause_s = self._config.replica_fetch_backoff_ms / 1000
        self._restart = self._loop.call_later(pause_s, self.on_metadata_changed)

    def _end(self, fetcher_id: FetcherId) -> None:
        ending = self._fetchers.pop(fetcher_id).close()
        self._ending.add(ending)
        ending.add_done_callback(self._ending.discard)

    def _prepare(self, replicas: Iterable[Replica]) -> None:
        """Truncate logs without epochs to the high watermark: they have no history to compare."""
        cuts = {
            replica.topic_partition: replica.high_watermark
            for replica in replicas
            if replica.log.leader_epochs.latest < 0
            and replica.high_watermark < replica.log.log_end_offset
        }
        if cuts:
            self._logs.truncate_to(cuts)
