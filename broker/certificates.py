"""The keys and certificates of a running broker, which change with its configs or files (edge)."""

from __future__ import annotations

from collections.abc import Callable

import structlog

from broker.cluster.peer_security import Contexts, PeerSecurities
from broker.config.broker_config import BrokerConfig
from broker.errors import ConfigError
from broker.secured_listeners import SecuredListeners, certificates_of
from broker.security.certificate_check import TlsSides, check_identity, check_peers
from broker.security.tls_context import ServerTls

log = structlog.get_logger(__name__)


class Certificates:
    """Replaces the certificates of listeners and of connections to peers, all or none."""

    def __init__(
        self, listeners: SecuredListeners, peers: PeerSecurities, host_name: Callable[[], str]
    ) -> None:
        """`host_name` returns the name of this machine."""
        self._listeners = listeners
        self._peers = peers
        self._host_name = host_name

    def check(self, config: BrokerConfig) -> None:
        """Check that the keys and certificates of `config` may replace the ones in force.

        Raises:
            ConfigError: a file or key cannot be used, or clients or peers would refuse it.
        """
        self._load_checked(config)

    def _load_checked(self, config: BrokerConfig) -> tuple[dict[str, ServerTls], Contexts]:
        """Return the TLS of listeners and of connections to peers."""
        old, new, for_peers = self._listeners.tls, certificates_of(config), self._peers.load(config)
        for name, tls in new.items():
            listener = config.listener_security[name]
            check_identity(old[name].certificate, tls.certificate, listener)
        hosts = {each.name: each.host or self._host_name() for each in config.network.advertised}
        for name, client in self._peers.contexts.items():
            new_client = for_peers[name]
            if client is not None and new_client is not None:
                check_peers(
                    TlsSides(old[name].context, client),
                    TlsSides(new[name].context, new_client),
                    hosts[name],
                    config.listener_security[name],
                )
        return new, for_peers

    def reload(self, config: BrokerConfig) -> None:
        """Read the keys and certificates again; new connections get them if `check` allows that."""
        if not self._listeners.tls:
            return
        try:
            tls, for_peers = self._load_checked(config)
        except ConfigError as error:
            # Only a change of a key with a file is checked when it is requested, and the file may
            # change after that.
            log.error("certificates.kept", error=str(error))
        else:
            self._listeners.tls = tls
            self._peers.adopt(for_peers)
            log.info("certificates.loaded")
