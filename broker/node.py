"""One broker: its parts, and the order in which they start and stop (composition).

Start: coordinator, cluster and broker id, topic configs, log dirs (with recovery if needed), end of
in-sync memberships if records may be lost, replicas, listeners, registration, controller component,
periodic tasks. The broker serves clients once all parts run and the controller has sent the
partitions and their leaders; it answers requests of the controller from the registration on.

Stop, in reverse order, after leaders have moved away: periodic tasks, listening sockets, waiting
requests, connections, replicas, high watermarks, logs, the marker of a clean shutdown, the session.

Source: kafka.server.KafkaServer of Kafka 3.9.
"""

from __future__ import annotations

import asyncio
import time
import uuid
from collections.abc import Collection, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import AsyncExitStack
from functools import partial
from pathlib import Path
from typing import Final

import structlog

from broker.certificates import Certificates
from broker.cluster.cluster_topics import ClusterTopics, roll
from broker.cluster.control_fence import ControlFence
from broker.cluster.control_proof import ControlProof
from broker.cluster.controller_link import ControllerLink
from broker.cluster.doubtful_start import leave_in_sync_sets
from broker.cluster.finalized_features import FinalizedFeatures
from broker.cluster.handover import hand_over
from broker.cluster.jafka_counts import JafkaCounts
from broker.cluster.member import ClusterMember
from broker.cluster.metadata_cache import ClusterImage, Endpoint, MetadataCache
from broker.cluster.peer_addresses import PeerAddresses
from broker.cluster.peers import Peers
from broker.cluster.producer_ids import ProducerIds
from broker.cluster.topic_plan import topic_defaults_of
from broker.config.broker_config import BrokerConfig
from broker.config.listener import Listener
from broker.coordinators import Coordinators
from broker.errors import ConfigError, StartupError, reason_of_failed_start
from broker.handlers.from_brokers import LargeRequests
from broker.handlers.handler_table import Parts, makers
from broker.live_configs.live_configs import LiveConfigs
from broker.live_configs.reconfiguration import Reconfiguration
from broker.log_levels import LogLevels
from broker.logs.broker_logs import BrokerLogs
from broker.logs.log_dir_failure import LogDirFailure
from broker.logs.mover import LogMover
from broker.logs.tasks import log_tasks
from broker.network.limits import network_limits_of
from broker.network.router import Router
from broker.replication.isr.alter_partition_recorder import make_isr_recorder
from broker.replication.replica_manager import ReplicaManager
from broker.scheduler import Scheduler
from broker.secured_listeners import SecuredListeners, shared_secret
from broker.security.access_control import AccessControl
from broker.security.oauth.token_validators import TokenValidators
from broker.security.token_nodes import TokenNodes
from broker.serving import Serving, machine_name
from broker.status.broker_status import BrokerStatus
from broker.status.end_offsets import EndOffsets
from broker.status.gauges import BrokerState, add_gauges, add_transaction_gauges
from broker.status.metric_sources import watch_clients, watch_groups, watch_partitions
from clusterstate.control_claim import read_evidence
from clusterstate.znodes.jafka_nodes import JafkaBroker
from speedups.finder import is_enabled
from storage.directory.logs import Logs

FIRST_METADATA_TIMEOUT_MS: Final = 5000
"""Time for the controller to send metadata at start; after it, partitions appear leaderless."""

log = structlog.get_logger(__name__)


def now_ms() -> int:
    """Return the wall-clock time in the unit of record timestamps."""
    return time.time_ns() // 1_000_000


class Node:
    """One broker. Call `start` once, then `stop` once.

    `failed` is done, with a reason, when the broker can no longer serve.
    """

    def __init__(
        self,
        config: BrokerConfig,
        loop: asyncio.AbstractEventLoop,
        levels: LogLevels | None = None,
    ) -> None:
        """Prepare a broker in `loop`, in a process whose loggers have the `levels`."""
        self._levels = levels or LogLevels()
        self.failed: asyncio.Future[str] = loop.create_future()
        self._config = config
        self._loop = loop
        self._executor = ThreadPoolExecutor(config.server.background_threads, "kafka-scheduler-")
        self._scheduler = Scheduler(loop, self._executor)
        self._status = BrokerStatus(loop, self._scheduler, self, time.thread_time)
        self.metrics = self._status.metrics
        self._running = AsyncExitStack()
        self._running.callback(self._executor.shutdown)
        self._metadata = MetadataCache()
        self._fence = ControlFence()
        self._serving = Serving(self._metadata, loop)
        self._broker_logs = BrokerLogs(
            config.logs,
            self.metrics,
            loop=loop,
            executor=self._executor,
            running=self._running,
            now_ms=now_ms,
        )
        self._member = ClusterMember(
            config, self._metadata, loop=loop, running=self._running, now_ms=now_ms
        )
        self._controller = ControllerLink(
            self._member.controller_endpoint, self._member.make_peer, self._metadata
        )
        self._running.push_async_callback(self._controller.close)
        self._directory_failure = LogDirFailure(self._member, self._serving.tasks, loop, self._fail)
        self._access: AccessControl | None = None
        self._tokens: TokenNodes | None = None
        self._configs: LiveConfigs
        self._producer_ids: ProducerIds
        self._coordinators: Coordinators
        self._logs: Logs
        self._replicas: ReplicaManager
        self._secured: SecuredListeners

    async def start(self) -> None:
        """Start the broker; it serves clients when this returns.

        Raises:
            StartupError: the start failed; all parts that had started are stopped again.
        """
        began_s = self._loop.time()
        self.metrics.state = BrokerState.STARTING
        try:
            await self._start()
        except BaseException as error:
            await self._running.aclose()
            if (reason := reason_of_failed_start(error)) is not None:
                raise StartupError(reason) from error
            raise
        self.metrics.state = BrokerState.RUNNING
        log.info(
            "broker.started",
            bound_addresses=self._serving.bound_addresses,
            partition_count=len(self._replicas.table),
            duration_ms=round((self._loop.time() - began_s) * 1000),
            compiled=is_enabled(),
        )

    async def stop(self) -> None:
        """Hand over all leaderships and stop in order; the next start needs no recovery."""
        log.info("broker.stopping", **self.metrics.snapshot())
        if self._may_hand_over:
            self.metrics.state = BrokerState.PENDING_CONTROLLED_SHUTDOWN
            await hand_over(
                self._member.identity.broker_id,
                lambda: self._member.session.broker_epoch,
                self._controller,
                self._serving.watch,
                self._config.server,
                self._member.session.wait_until_silent,
            )
        self.metrics.state = BrokerState.SHUTTING_DOWN
        await self._running.aclose()
        self.metrics.state = BrokerState.NOT_RUNNING
        log.info("broker.stopped")

    @property
    def _may_hand_over(self) -> bool:
        """Whether to hand over leaderships, which needs the coordinator and a controller."""
        return (
            self._config.server.controlled_shutdown_enable
            and not self.failed.done()
            and self._member.session.is_connected
        )

    async def _start(self) -> None:
        step, member = self._status.steps.step, self._member
        await self._show_status()
        with step("log directory locks"):
            locked = self._broker_logs.lock()
        with step("coordinator session, cluster id, broker id"):
            await member.join(locked[0])
        with step("dynamic configs"):
            configs = await self._load_configs()
        with step("access control lists"):
            await self._load_access()
        with step("delegation tokens"):
            await self._load_tokens()
        with step("features"):
            features = FinalizedFeatures(member.session)
            self._running.push_async_callback(features.stop)
        with step("logs, meta.properties"):
            logs = await self._open_logs(locked)
            logs.claim(member.identity.broker_id, member.identity.cluster_id)
        if logs.doubtful_paths:
            with step("in-sync sets"):
                left = await leave_in_sync_sets(member.session, member.identity.broker_id, logs)
                await self._broker_logs.accept(left)
        with step("replica manager"):
            replicas = self._make_replicas(logs)
            self._directory_failure.watch(logs, replicas)
            mover = self._broker_logs.make_mover(replicas)
        with step("group coordinator, request handlers"):
            router = self._make_router(logs, replicas, features, mover)
        with step("socket server"):
            endpoints = await self._listen(router)
        with step("replica fetchers, moves"):
            mover.resume()
            self._running.push_async_callback(mover.stop)
            replicas.start()
        with step("registration, controller"):
            await member.register(
                endpoints, replicas.on_registered, replicas.count_missing_writes, self._fail
            )
            self._metadata.on_change(replicas.on_metadata_changed)
        with step("config handlers"):
            changes = self._follow_configs(configs, replicas, mover)
            features.listen()
            if self._access is not None:
                self._access.nodes.listen()
            if self._tokens is not None:
                self._tokens.listen()
        with step("metadata"):
            if not await self._serving.watch.wait_for(
                self._has_metadata, FIRST_METADATA_TIMEOUT_MS
            ):
                log.warning("metadata.missing", waited_ms=FIRST_METADATA_TIMEOUT_MS)
        if chroot := self._config.server.ottla_jafka_chroot:
            with step("registration in Jafka's layout"):
                await self._publish_for_jafka(chroot, endpoints)
        with step("request processing"):
            self._serving.open()
            self._producer_ids.start()
        with step("scheduler, log cleaner"):
            self._schedule(logs, replicas)
            cleaner = self._broker_logs.start_cleaner(configs.current.logs, replicas)
            changes.add(
                lambda config: self._serving.tasks.run(partial(cleaner.reconfigure, config.logs))
            )

    async def _publish_for_jafka(self, chroot: str, endpoints: Mapping[str, Endpoint]) -> None:
        plain = next(iter(endpoints.values()))
        counts = JafkaCounts(
            chroot,
            self._member.session,
            self._metadata,
            self._member.identity.broker_id,
            JafkaBroker(f"{plain.host}-{now_ms()}", plain.host, plain.port),
        )
        self._running.push_async_callback(counts.stop)
        await counts.start()

    async def _show_status(self) -> None:
        """Serve the status pages from the first step to the last, if they are configured."""
        if (listener := self._config.server.status_listener) is not None:
            await self._status.show(listener)
            self._running.push_async_callback(self._status.hide)

    async def _load_configs(self) -> LiveConfigs:
        session, broker_id = self._member.session, self._member.identity.broker_id
        configs = self._configs = LiveConfigs(self._config, session, broker_id, now_ms)
        self._running.push_async_callback(configs.stop)
        await session.repeat(configs.load)
        return configs

    async def _load_access(self) -> None:
        """Read the access control lists, before any request can arrive."""
        if self._config.server.authorizer_class_name:
            self._access = AccessControl(
                self._config.server, self._member.session, clock=self._loop.time, now_ms=now_ms
            )
            self._running.push_async_callback(self._access.nodes.stop)
            await self._member.session.repeat(self._access.nodes.load)

    async def _load_tokens(self) -> None:
        """Read the delegation tokens, before any client can show one."""
        if self._config.tokens.delegation_token_secret_key:
            self._tokens = TokenNodes(self._config.tokens, self._member.session, now_ms)
            self._running.push_async_callback(self._tokens.stop)
            await self._member.session.repeat(self._tokens.load)

    def _follow_configs(
        self, configs: LiveConfigs, replicas: ReplicaManager, mover: LogMover
    ) -> Reconfiguration:
        changes = Reconfiguration(
            configs.broker,
            configs.topics,
            controller=self._member.controller,
            mover=mover,
            replicas=replicas,
            server=self._serving.server,
            advertise=self._advertise,
        )
        certificates = Certificates(self._secured, self._member.security, machine_name)
        changes.reload_by(certificates.reload)
        changes.repair_by(self._advertise_again)
        configs.broker.check_files = certificates.check
        configs.follow(changes)
        return changes

    def _advertise(self, listeners: Iterable[Listener]) -> None:
        endpoints = self._serving.advertise(listeners)
        self._serving.tasks.run(partial(self._member.advertise, endpoints))

    def _advertise_again(self) -> None:
        self._serving.tasks.run(self._member.advertise_again)

    async def _open_logs(self, locked: Collection[Path]) -> Logs:
        self.metrics.state = BrokerState.RECOVERY
        logs = self._logs = await self._broker_logs.open(
            locked,
            config_of=self._configs.topics.log_config,
            on_offline=self._directory_failure.on_failed,
            recovery_threads=self._configs.current.logs.num_recovery_threads_per_data_dir,
        )
        return logs

    def _make_replicas(self, logs: Logs) -> ReplicaManager:
        member = self._member
        recorder = make_isr_recorder(member, self._controller, self._fence, self._running)
        replicas = self._replicas = ReplicaManager(
            broker_id=member.identity.broker_id,
            logs=logs,
            metadata=self._metadata,
            fence=self._fence,
            loop=self._loop,
            now_ms=now_ms,
            clock_ms=self._clock_ms,
            log_config_of=self._configs.topics.log_config,
            endpoint_of=member.endpoint_of,
            isr_recorder=recorder,
            config=self._configs.current.replication,
            is_in_doubt=lambda: member.session.is_in_doubt,
            security=member.security.inter_broker,
        )
        replicas.events.on_change(self._serving.purgatory.on_change)
        self._broker_logs.attach(replicas)
        self._running.push_async_callback(replicas.stop)
        return replicas

    def _make_router(
        self,
        logs: Logs,
        replicas: ReplicaManager,
        features: FinalizedFeatures,
        mover: LogMover,
    ) -> Router:
        member, config = self._member, self._config
        peers = PeerAddresses(self._metadata, config.network.trusted_listeners, loop=self._loop)
        self._running.push_async_callback(peers.stop)
        proof = ControlProof(
            lambda: member.session.run(read_evidence(member.identity.broker_id)),
            self._fence,
            peers,
        )
        self._running.push_async_callback(proof.stop)
        member.controller.on_elected(proof.look_ahead)
        producer_ids = self._producer_ids = ProducerIds(
            member.identity.broker_id, lambda: member.session.broker_epoch, self._controller
        )
        self._running.push_async_callback(producer_ids.stop)
        topics = ClusterTopics(
            member.session,
            self._metadata,
            lambda: topic_defaults_of(self._configs.current),
            new_topic_id=uuid.uuid4,
            roll=roll,
        )
        coordinators = self._coordinators = Coordinators(
            member,
            self._metadata,
            self._serving,
            replicas,
            producer_ids,
            config=config,
            loop=self._loop,
            executor=self._executor,
            now_ms=now_ms,
        )
        self._running.push_async_callback(coordinators.stop)
        parts = Parts(
            access=self._access,
            config=self._config,
            configs=self._configs,
            controller=member.controller,
            features=features,
            fence=self._fence,
            groups=coordinators.groups,
            identity=member.identity,
            levels=self._levels,
            logs=logs,
            loop=self._loop,
            mover=mover,
            metadata=self._metadata,
            peers=peers,
            producer_ids=producer_ids,
            proof=proof,
            purgatory=self._serving.purgatory,
            replicas=replicas,
            session=member.session,
            tasks=self._serving.tasks,
            tokens=self._tokens,
            topics=topics,
            transactions=coordinators.transactions,
            verifier=coordinators.verifier,
            watch=self._serving.watch,
            now_ms=now_ms,
            clock_ms=self._clock_ms,
        )
        admit = LargeRequests(proof, member.controller, self._serving.tasks).admit
        return Router(makers(parts), admit)

    async def _listen(self, router: Router) -> Mapping[str, Endpoint]:
        """Bind all listeners; return the advertised endpoint of each."""
        config, serving = self._config.network, self._serving
        limits = network_limits_of(self._configs.current.network)
        validators = TokenValidators(self._loop, now_ms)
        secured = self._secured = SecuredListeners(
            self._configs.current,
            self._configs.scram_users,
            validators,
            self._tokens,
            await shared_secret(self._configs.current, self._member.session),
        )
        self._running.push_async_callback(validators.stop)
        await validators.start()
        try:
            self._member.security.adopt(self._member.security.load(self._configs.current))
        except ConfigError as error:
            raise StartupError(str(error)) from None
        await serving.listen(
            router.handle,
            config,
            limits,
            self._status.network_metrics,
            secured,
            time.monotonic if self._config.server.status_listener else None,
        )
        self._running.push_async_callback(
            serving.stop, self._coordinators.groups, self._coordinators.transactions
        )
        add_gauges(self.metrics, serving.purgatory, self._replicas, self._member.controller)
        self._add_metrics()
        add_transaction_gauges(
            self.metrics,
            self._replicas,
            self._config.groups.transaction_max_timeout_ms,
            now_ms,
        )
        return serving.advertise(self._configs.current.network.advertised)

    def _add_metrics(self) -> None:
        status, member, metadata = self._status, self._member, self._metadata
        self.metrics.add_gauge("live_brokers", lambda: len(metadata.image.brokers))
        self.metrics.add_gauge("session_expirations", lambda: member.session.expiration_count)
        if member.coordinator is not None:
            status.add(member.coordinator.metrics)
        watch_partitions(status, self._replicas)
        peers = Peers(member.endpoint_of, member.make_peer)
        self._running.push_async_callback(peers.close)
        ends = EndOffsets(member.identity.broker_id, self._replicas.table, metadata, peers)
        watch_groups(status, self._coordinators.groups.registry, ends)
        watch_clients(
            status,
            self._serving.server,
            self._configs.quotas,
            member.controller,
            self._clock_ms,
        )

    @property
    def state(self) -> BrokerState:
        """State of this broker."""
        return self.metrics.state

    @property
    def failure(self) -> str | None:
        """Reason why this broker is about to stop; None if it is not."""
        return self.failed.result() if self.failed.done() else None

    @property
    def is_registered(self) -> bool:
        """Whether this broker has a session with the coordinator, and is registered in it."""
        return self._member.session.is_connected and not self._member.session.is_in_doubt

    @property
    def offline_dirs(self) -> list[str]:
        """Log dirs that cannot be used."""
        return [str(path) for path in self._logs.table.offline_paths]

    @property
    def unserved_count(self) -> int:
        """Number of partitions whose log is here, but which are not served."""
        table, strays = self._replicas.table, self._replicas.roles.strays
        return table.offline_count + sum(
            each.topic_partition not in table and not strays.is_unclaimed(each.topic_partition)
            for each in self._logs
        )

    def _has_metadata(self, image: ClusterImage) -> bool:
        """Whether `image` is complete and holds this broker and the partitions of all its logs.

        Logs that the controller has not claimed, once it has named this broker's replicas, do not
        count.
        """
        strays = self._replicas.roles.strays
        return (
            image.is_complete
            and self._member.identity.broker_id in image.brokers
            and all(
                image.partition(each.topic_partition) is not None
                or strays.is_unclaimed(each.topic_partition)
                for each in self._logs
            )
        )

    def _schedule(self, logs: Logs, replicas: ReplicaManager) -> None:
        scheduler = self._scheduler
        for task in log_tasks(
            self._configs.broker, logs, replicas, now_ms=now_ms, clock_ms=self._clock_ms
        ):
            scheduler.add(task)
        for task in self._coordinators.tasks():
            scheduler.add(task)
        if self._tokens is not None:
            scheduler.add(self._tokens.expiry_task(self._member.controller))
        self._running.push_async_callback(scheduler.stop)

    def _clock_ms(self) -> int:
        return round(self._loop.time() * 1000)

    def _fail(self, reason: str) -> None:
        if not self.failed.done():
            self.failed.set_result(reason)
