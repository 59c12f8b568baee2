"""The authorizer with its znodes and its audit log (composition)."""

from __future__ import annotations

import logging
from collections.abc import Callable

import structlog

from broker.cluster.coordinator_session import CoordinatorSession
from broker.config.server_keys import ServerKeys
from broker.security.acl_nodes import AclNodes
from broker.security.audit import Audit
from broker.security.authorizer import Authorizer

log = structlog.get_logger(__name__)


class AccessControl:
    """The parts of access control; a broker without an authorizer has none."""

    def __init__(
        self,
        config: ServerKeys,
        session: CoordinatorSession,
        *,
        clock: Callable[[], float],
        now_ms: Callable[[], int],
    ) -> None:
        self.authorizer = Authorizer(
            config.super_principals, allows_unlisted=config.allow_everyone_if_no_acl_found
        )
        self.nodes = AclNodes(session, self.authorizer, now_ms)
        self.audit = Audit(clock, logs_allowed=log.is_enabled_for(logging.DEBUG))
