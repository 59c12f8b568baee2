"""This broker as a member of a cluster: session, identity, registration, controller (composition).

Joining follows Kafka's order: coordinator, cluster id, broker id. Registration comes later, when
other nodes can reach the broker. After that the controller component stands for election.
"""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Final

import structlog

from broker.cluster.controller_role import FIRST_PROTOCOL_WITH_FEATURES, ControllerRole
from broker.cluster.coordinator_security import CoordinatorSecurity, coordinator_security
from broker.cluster.coordinator_session import SESSION_FILE, CoordinatorSession
from broker.cluster.identity import (
    Identity,
    Past,
    Remembered,
    check_cluster,
    choose_broker_id,
    recall,
)
from broker.cluster.metadata_cache import Endpoint, MetadataCache
from broker.cluster.own_registration import dialled_endpoint, registration_of
from broker.cluster.peer import Peer
from broker.cluster.peer_security import PeerSecurities, PeerSecurity
from broker.config.broker_config import BrokerConfig
from broker.errors import StartupError
from clusterstate.broker_registration import (
    check_endpoints,
    cluster_id,
    existing_cluster_id,
    generate_broker_id,
    update,
)
from clusterstate.znodes.registration import Registration
from coordination.errors import OperationError, SessionExpiredError
from kafkawire.errors import ApiError
from kafkawire.ids import BrokerId, TopicPartition, topic_id_to_text
from storage.directory.meta_properties import read_meta_properties
from storage.disk.layout import META_PROPERTIES
from storage.errors import StorageError

if TYPE_CHECKING:
    from coordination.server.coordinator import Coordinator

UPDATE_ATTEMPTS: Final = 60
UPDATE_RETRY_S: Final = 1.0

log = structlog.get_logger(__name__)


class ClusterMember:
    """Joins, registers and leaves, once each; `running` closes everything that it opens."""

    def __init__(
        self,
        config: BrokerConfig,
        metadata: MetadataCache,
        *,
        loop: asyncio.AbstractEventLoop,
        running: AsyncExitStack,
        now_ms: Callable[[], int],
    ) -> None:
        self.session: CoordinatorSession
        self.identity: Identity
        self.controller: ControllerRole
        self.security: PeerSecurities
        self.coordinator: Coordinator | None = None
        """The coordinator in this process, if there is one."""
        self._registration: Registration
        self._is_written = True
        """Whether the last change of the registration has reached the coordinator."""
        self._advertising = asyncio.Lock()
        self._config = config
        self._metadata = metadata
        self._loop = loop
        self._running = running
        self._now_ms = now_ms

    async def join(self, session_dir: Path) -> None:
        """Connect to the coordinator, and learn this broker's identity from it.

        `session_dir` is the log dir for the session file, locked by this process.

        Raises:
            StartupError: no coordinator, or the log dirs belong to another broker or cluster.
        """
        self.security = PeerSecurities(self._config, self._now_ms)
        past = recall(_remembered(self._config.logs.log_directories))
        self.session = await self._open_session(session_dir)
        self.identity = await self.session.repeat(lambda: self._identify(past))
        log.info(
            "broker.identified",
            broker_id=self.identity.broker_id,
            cluster_id=self.identity.cluster_id,
        )
        self.controller = ControllerRole(
            self._config,
            self.identity.broker_id,
            self.session.client,
            self._metadata,
            dial=self._dial,
            now_ms=self._now_ms,
        )
        self._running.push_async_callback(self.controller.stop)

    async def register(
        self,
        endpoints: Mapping[str, Endpoint],
        on_registered: Callable[[int], None],
        count_missing_writes: Callable[[Sequence[TopicPartition]], int],
        on_failure: Callable[[str], None],
    ) -> None:
        """Register with the cluster, as long as the process lives, and stand for election.

        `on_registered` gets the broker epoch, now and after each lost session. For
        `count_missing_writes`, see `ReplicaManager`.

        Raises:
            StartupError: another broker has the id, or one of the endpoints.
        """
        self._registration = registration_of(self._config, self.identity.broker_id, endpoints)
        self.session.on_registered = on_registered
        while not await self._register_once():
            await self.session.renew()
        self.controller.start(count_missing_writes, on_failure)
        self.session.keep_registered(
            self.identity.broker_id, self._encode_registration, self.controller, on_failure
        )

    async def advertise(self, endpoints: Mapping[str, Endpoint]) -> None:
        """Replace the endpoints of the registration, now and in later sessions.

        The controller announces them to all brokers. The registration stays as it is if another
        broker advertises one of the endpoints. If it cannot be written, `advertise_again` or the
        next session writes it.
        """
        async with self._advertising:
            wanted = registration_of(self._config, self.identity.broker_id, endpoints)
            if wanted != self._registration:
                await self._write_registration(wanted)

    async def advertise_again(self) -> None:
        """Write the registration if its last change could not be written."""
        async with self._advertising:
            if not self._is_written:
                await self._write_registration(self._registration)

    async def _write_registration(self, wanted: Registration) -> None:
        fields = {"endpoints": [f"{each.host}:{each.port}" for each in wanted.endpoints]}
        left = UPDATE_ATTEMPTS
        while left:
            try:
                if await self._update_registration(wanted):
                    log.info("registration.updated", **fields)
                    return
                left -= 1
            except SessionExpiredError:
                # The next session registers again.
                pass
            except (ApiError, OperationError) as error:
                log.error("registration.kept", error=str(error), **fields)
                return
            await asyncio.sleep(UPDATE_RETRY_S)
        log.error("registration.kept", error="it cannot be read or written", **fields)

    async def _update_registration(self, wanted: Registration) -> bool:
        """Return False if the registration is gone, or cannot be read or written."""
        if wanted != self._registration:
            await self.session.run(check_endpoints(wanted))
            # In time for a new session, which may begin before the next write.
            self._registration, self._is_written = wanted, False
        data, epoch = self._encode_registration(), self.session.broker_epoch
        self._is_written = await self.session.run(update(self.identity.broker_id, epoch, data))
        return self._is_written

    def _encode_registration(self) -> bytes:
        version = 5 if self._has_features else 4
        registration = replace(self._registration, first_epoch=self.session.first_epoch)
        return registration.encode(timestamp_ms=self._now_ms(), version=version)

    async def _register_once(self) -> bool:
        """Register; return False if the session ended before."""
        try:
            await self.session.run(check_endpoints(self._registration))
            await self.session.register(self.identity.broker_id, self._encode_registration)
        except ApiError as error:
            raise StartupError(str(error)) from None
        except SessionExpiredError:
            return False
        return True

    def endpoint_of(self, broker_id: BrokerId) -> Endpoint | None:
        """Return the address for requests to another broker, None while it is unknown."""
        return self._metadata.image.endpoint(broker_id, self._config.network.inter_broker_listener)

    def controller_endpoint(self) -> Endpoint | None:
        """Return the address for requests to the controller, None while it is unknown."""
        return self.endpoint_of(self._metadata.image.controller_id)

    def make_peer(self, endpoint: Endpoint, security: PeerSecurity | None = None) -> Peer:
        """Return a connection to another broker, for requests from or to a controller.

        The default `security` is that of the inter-broker listener.
        """
        return Peer(
            endpoint,
            loop=self._loop,
            client_id=str(self.identity.broker_id),
            timeout_ms=self._config.replication.controller_socket_timeout_ms,
            security=security or self.security.inter_broker,
        )

    @property
    def has_alter_partition(self) -> bool:
        """Whether the controller changes in-sync sets; otherwise leaders write the nodes."""
        return self._has_features

    @property
    def _has_features(self) -> bool:
        return self._config.replication.inter_broker_version >= FIRST_PROTOCOL_WITH_FEATURES

    async def _open_session(self, session_dir: Path) -> CoordinatorSession:
        config = self._config
        connect_string = config.server.zookeeper_connect
        if connect_string is None:
            connect_string, security = await self._start_coordinator()
        else:
            security = coordinator_security(config.coordinator)
        timeout_ms = config.server.zookeeper_session_timeout_ms
        session = CoordinatorSession(
            connect_string,
            session_dir / SESSION_FILE,
            timeout_ms=timeout_ms,
            connect_timeout_ms=config.server.zookeeper_connection_timeout_ms or timeout_ms,
            security=security,
        )
        self._running.push_async_callback(session.close)
        await session.open()
        return session

    async def _start_coordinator(self) -> tuple[str, CoordinatorSecurity]:
        """Return the address of a coordinator in this process, and the login of its only user."""
        from broker.cluster.embedded_coordinator import address_of, make_login, start_coordinator

        login = make_login()
        coordinator = await start_coordinator(Path(self._config.logs.log_directories[0]), login)
        self.coordinator = coordinator
        self._running.push_async_callback(coordinator.stop, takes_snapshot=False)
        has_acl = self._config.coordinator.zookeeper_set_acl
        return address_of(coordinator), CoordinatorSecurity(login=login, has_acl=has_acl)

    async def _identify(self, past: Past) -> Identity:
        check_cluster(past, await self.session.run(existing_cluster_id()))
        proposed = past.cluster_id or topic_id_to_text(uuid.uuid4())
        cluster = await self.session.run(cluster_id(proposed))
        check_cluster(past, cluster)
        broker_id = choose_broker_id(
            self._config.server.broker_id,
            past,
            may_generate=self._config.server.broker_id_generation_enable,
        )
        if broker_id is None:
            broker_id = await self.session.run(
                generate_broker_id(self._config.server.reserved_broker_max_id)
            )
        return Identity(broker_id, cluster)

    def _dial(self, registration: Registration) -> Peer:
        endpoint = dialled_endpoint(self._config, registration)
        return self.make_peer(endpoint, self.security.control_plane)


def _remembered(log_directories: Iterable[str]) -> list[Remembered]:
    """Return the owners that the log dirs name; a log dir that cannot be read is skipped."""
    found = []
    for path in log_directories:
        try:
            meta = read_meta_properties(Path(path) / META_PROPERTIES)
        except (StorageError, OSError) as error:
            log.warning("log_dir.not_read", path=path, error=str(error))
            continue
        found.append(Remembered(path, meta.broker_id, meta.cluster_id))
    return found
