"""One broker: its parts, and the order in which they start and stop (composition).

Start: configs, log dirs (recovering what needs it), identity, topics, handlers, listeners,
periodic tasks. Stop, the other way round: periodic tasks, no more connections, waiting requests,
connections, then high watermarks, logs, and the marker that says that all this was in order.
"""

from __future__ import annotations

import asyncio
import time
import uuid
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Final

import structlog

from broker.admin_queue import AdminQueue
from broker.advertising import advertise, machine_name
from broker.config import BrokerConfig
from broker.errors import StartupError
from broker.group_coordinator import GroupCoordinator
from broker.handler_table import HandlerTable
from broker.identity import Identity, Remembered, choose_identity
from broker.local_state import LocalState, read_local_state
from broker.local_topics import LocalTopics
from broker.log_cleaning import make_cleaner
from broker.log_metrics import add_log_gauges
from broker.log_mover import LogMover
from broker.log_tasks import log_tasks
from broker.metadata_cache import LiveBroker, MetadataCache
from broker.metrics import BrokerState, Metrics
from broker.network_limits import NetworkLimits
from broker.producer_ids import ProducerIds
from broker.purgatory import Purgatory
from broker.replica_manager import ReplicaManager
from broker.request_channel import RequestChannel
from broker.router import Router
from broker.scheduler import PeriodicTask, Scheduler
from broker.socket_server import SocketServer
from broker.topic_plan import topic_defaults_of
from kafkawire.ids import TopicPartition
from storage.config import LogConfig
from storage.config_key import INT_MAX
from storage.directory import Logs
from storage.errors import StorageError

DRAIN_TIMEOUT_S: Final = 10.0
"""How long clients may take to read their last responses when the broker stops."""

log = structlog.get_logger(__name__)


def now_ms() -> int:
    """Return the time of day, as records count it."""
    return time.time_ns() // 1_000_000


class Node:
    """One broker. `start` once, then `stop` once; `failed` is done when it cannot go on."""

    def __init__(self, config: BrokerConfig, loop: asyncio.AbstractEventLoop) -> None:
        self.metrics = Metrics()
        self.failed: asyncio.Future[str] = loop.create_future()
        self.bound_addresses: list[str] = []
        self._config = config
        self._loop = loop
        self._metadata = MetadataCache()
        self._purgatory: Purgatory[TopicPartition] = Purgatory(loop)
        self._replicas: ReplicaManager | None = None
        self._admin_queue = AdminQueue(loop)
        self._groups: GroupCoordinator | None = None
        self._topics: LocalTopics | None = None
        self._logs: Logs | None = None
        self._executor = ThreadPoolExecutor(config.background_threads, "kafka-scheduler-")
        self._running = AsyncExitStack()
        self._running.callback(self._executor.shutdown)

    async def start(self) -> None:
        """Serve when this returns.

        Raises:
            StartupError: it cannot; everything that had begun has been stopped.
        """
        began_s = self._loop.time()
        self.metrics.state = BrokerState.STARTING
        try:
            await self._start()
        except BaseException as error:
            await self._running.aclose()
            if isinstance(error, StorageError | OSError):
                raise StartupError(str(error)) from error
            raise
        self.metrics.state = BrokerState.RUNNING
        log.info(
            "broker.started",
            bound_addresses=self.bound_addresses,
            partition_count=self._partition_count,
            duration_ms=round((self._loop.time() - began_s) * 1000),
        )

    async def stop(self) -> None:
        """Stop in order; the next start needs no recovery."""
        self.metrics.state = BrokerState.SHUTTING_DOWN
        log.info("broker.stopping", **self.metrics.snapshot())
        await self._running.aclose()
        self.metrics.state = BrokerState.NOT_RUNNING
        log.info("broker.stopped")

    async def _start(self) -> None:
        state = read_local_state(self._state_directory)
        logs = await self._open_logs(state)
        identity = self._identify(logs)
        logs.claim(identity.broker_id, identity.cluster_id)
        log.info("broker.identified", broker_id=identity.broker_id, cluster_id=identity.cluster_id)
        replicas = self._replicas = self._make_replicas(identity, logs)
        mover = self._make_mover(logs, replicas)
        router = self._make_router(identity, logs, state, replicas, mover)
        await self._listen(identity, router)
        mover.resume()
        self._running.push_async_callback(mover.stop)
        replicas.start()
        self._running.push_async_callback(replicas.stop)
        scheduler = Scheduler(self._loop, self._executor)
        for task in log_tasks(self._config, logs, replicas, now_ms):
            scheduler.add(task)
        scheduler.add(self._expiry_of_offsets())
        self._running.push_async_callback(scheduler.stop)
        cleaner = make_cleaner(
            config=self._config,
            logs=logs,
            replicas=replicas,
            metrics=self.metrics,
            loop=self._loop,
            executor=self._executor,
            now_ms=now_ms,
        )
        cleaner.start()
        self._running.push_async_callback(cleaner.stop)

    def _expiry_of_offsets(self) -> PeriodicTask:
        assert self._groups is not None, "the coordinator is made before"
        return PeriodicTask(
            "delete-expired-group-metadata",
            self._groups.expire,
            period_ms=self._config.offsets_retention_check_interval_ms,
            runs_in_loop=True,
        )

    @property
    def _partition_count(self) -> int:
        return 0 if self._replicas is None else self._replicas.partition_count

    @property
    def _state_directory(self) -> Path:
        return Path(self._config.log_directories[0])

    async def _open_logs(self, state: LocalState) -> Logs:
        """Open all logs in a thread, for that can take long after a crash."""
        self.metrics.state = BrokerState.RECOVERY
        defaults = self._config.topic_defaults

        def open_logs() -> Logs:
            return Logs.open(
                [Path(text) for text in self._config.log_directories],
                config_of=lambda name: LogConfig.from_properties(
                    state.configs.get(name, {}), defaults
                ),
                now_ms=now_ms(),
                on_offline=self._on_directory_failed,
                recovery_threads=self._config.num_recovery_threads_per_data_dir,
                reserve_bytes=self._config.log_dir_reserve_bytes,
            )

        logs = self._logs = await self._loop.run_in_executor(self._executor, open_logs)
        self._running.push_async_callback(self._close_logs, logs)
        add_log_gauges(self.metrics, logs)
        self.metrics.state = BrokerState.STARTING
        return logs

    def _identify(self, logs: Logs) -> Identity:
        return choose_identity(
            self._config.broker_id,
            [
                Remembered(str(each.path), each.meta.broker_id, each.meta.cluster_id)
                for each in logs.online_directories
            ],
            may_generate=self._config.broker_id_generation_enable,
            max_reserved_id=self._config.reserved_broker_max_id,
            random_id=uuid.uuid4,
        )

    def _make_replicas(self, identity: Identity, logs: Logs) -> ReplicaManager:
        return ReplicaManager(
            broker_id=identity.broker_id,
            logs=logs,
            metadata=self._metadata,
            purgatory=self._purgatory,
            loop=self._loop,
            now_ms=now_ms,
            log_config_of=lambda _topic: self._config.topic_defaults,
            config=self._config,
        )

    def _make_mover(self, logs: Logs, replicas: ReplicaManager) -> LogMover:
        threads = self._config.num_replica_alter_log_dirs_threads
        return LogMover(
            logs,
            on_moved=replicas.replace_log,
            loop=self._loop,
            executor=self._executor,
            now_ms=now_ms,
            max_moves=max(1, len(logs.directories) if threads is None else threads),
        )

    def _make_router(
        self,
        identity: Identity,
        logs: Logs,
        state: LocalState,
        replicas: ReplicaManager,
        mover: LogMover,
    ) -> Router:
        topics = self._topics = LocalTopics(
            identity.broker_id,
            logs=logs,
            metadata=self._metadata,
            replicas=replicas,
            defaults=topic_defaults_of(self._config),
            state=state,
            state_directory=self._state_directory,
            now_ms=now_ms,
        )
        groups = self._groups = self._make_groups(replicas)
        topics.load()
        table = HandlerTable(
            admin_queue=self._admin_queue,
            config=self._config,
            groups=groups,
            identity=identity,
            logs=logs,
            loop=self._loop,
            mover=mover,
            metadata=self._metadata,
            producer_ids=ProducerIds(logs.online_directories[0].path, identity.broker_id),
            purgatory=self._purgatory,
            replicas=replicas,
            topics=topics,
            now_ms=now_ms,
            served=lambda: router.served,
        )
        router = Router(table.makers())
        return router

    def _make_groups(self, replicas: ReplicaManager) -> GroupCoordinator:
        """Make the coordinator of groups; it learns of leaderships from the first one on."""
        groups = GroupCoordinator(
            replicas,
            self._purgatory,
            self._metadata,
            self._config,
            loop=self._loop,
            executor=self._executor,
            now_ms=now_ms,
        )
        replicas.add_leadership_listener(groups)
        return groups

    async def _listen(self, identity: Identity, router: Router) -> None:
        config = self._config
        limits = network_limits_of(config)
        channel = RequestChannel(self._loop, router.handle, limits)
        server = SocketServer(
            config.listening,
            limits,
            channel,
            control_plane_listener_name=config.control_plane_listener_name,
        )
        # Known before the first connection, but for ports that the system chooses.
        self._publish_broker(identity, {each.name: each.port for each in config.listening})
        await server.start()
        self._running.push_async_callback(self._stop_serving, server)
        bound = server.bound_addresses
        self._publish_broker(identity, {name: port for name, (_, port) in bound.items()})
        self.bound_addresses = [f"{_bracketed(host)}:{port}" for host, port in bound.values()]
        self._add_gauges(server)

    def _publish_broker(self, identity: Identity, ports: Mapping[str, int]) -> None:
        """Tell clients of this broker; it is its own controller until there is a cluster."""
        endpoints = advertise(self._config.advertised, ports, machine_name)
        broker = LiveBroker(
            broker_id=identity.broker_id, endpoints=endpoints, rack=self._config.broker_rack
        )
        self._metadata.set_brokers([broker], identity.broker_id)

    def _add_gauges(self, server: SocketServer) -> None:
        self.metrics.add_gauge("connections", lambda: server.connection_count)
        self.metrics.add_gauge("partitions", lambda: self._partition_count)
        waiting = self._purgatory.waiting
        self.metrics.add_gauge("waiting_requests", lambda: waiting.operation_count)

    async def _stop_serving(self, server: SocketServer) -> None:
        """Answer what was asked, as far as clients read it, and close all connections."""
        server.stop_accepting()
        if self._groups is not None:
            await self._groups.stop()
        self._purgatory.close()
        if not await server.drain(DRAIN_TIMEOUT_S):
            log.warning("connections.cut_off", connection_count=server.connection_count)
        await server.close()
        await self._admin_queue.stop()

    async def _close_logs(self, logs: Logs) -> None:
        def close() -> None:
            if self._replicas is not None:
                logs.write_high_watermarks(self._replicas.high_watermarks())
            logs.close()

        await self._loop.run_in_executor(self._executor, close)

    def _on_directory_failed(self, path: Path) -> None:
        """Called in any thread: in the loop, see what is left."""
        self._loop.call_soon_threadsafe(self._give_up_directory, path)

    def _give_up_directory(self, path: Path) -> None:
        if self._topics is None or self._logs is None:
            return
        self._topics.on_directory_failed(path)
        if not self._logs.online_directories and not self.failed.done():
            self.failed.set_result(f"log dir {path} failed, and no other is left")


def network_limits_of(config: BrokerConfig) -> NetworkLimits:
    """Return what the network layer is told; Kafka's "no limit" is None there."""
    return NetworkLimits(
        queued_max_requests=config.queued_max_requests,
        queued_max_request_bytes=_positive(config.queued_max_request_bytes),
        socket_request_max_bytes=config.socket_request_max_bytes,
        socket_send_buffer_bytes=_positive(config.socket_send_buffer_bytes),
        socket_receive_buffer_bytes=_positive(config.socket_receive_buffer_bytes),
        socket_listen_backlog_size=config.socket_listen_backlog_size,
        max_connections=_limit(config.max_connections),
        max_connections_per_ip=_limit(config.max_connections_per_ip),
        max_connections_per_ip_overrides=config.connection_limits_by_ip,
        connections_max_idle_ms=_positive(config.connections_max_idle_ms),
    )


def _positive(value: int) -> int | None:
    return value if value > 0 else None


def _limit(value: int) -> int | None:
    return value if value < INT_MAX else None


def _bracketed(host: str) -> str:
    return f"[{host}]" if ":" in host else host
