"""The audit log: denied operations at info, allowed ones at debug (edge).

A client that repeats a denied operation must not fill the disk: each principal, resource and
operation gets one line per `REPEAT_S`, and the next line says how many were left out. Names are
values of the event, never part of its text.

Source: the logger `kafka.authorizer.logger` of Kafka 3.9.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import structlog

from broker.security.principal import Principal
from kafkawire.acl import Operation, ResourcePattern

REPEAT_S: Final = 10.0
MAX_REMEMBERED: Final = 1_000
"""Limit of denials that are remembered. Beyond it, the oldest line may be repeated sooner."""

log = structlog.get_logger(__name__)


class Audit:
    """Logs decisions."""

    def __init__(self, clock: Callable[[], float], *, logs_allowed: bool) -> None:
        """`logs_allowed` says whether the level of the log includes debug."""
        self.logs_allowed = logs_allowed
        self._clock = clock
        # By principal, resource and operation: the time of the last line, and the denials since.
        self._denied: dict[tuple[Principal, ResourcePattern, Operation], tuple[float, int]] = {}

    def denied(
        self,
        principal: Principal,
        host: str,
        operation: Operation,
        resource: ResourcePattern,
        *,
        request: str,
        resource_ref_count: int,
    ) -> None:
        """Log a denial; the request names the resource `resource_ref_count` times."""
        key, now_s = (principal, resource, operation), self._clock()
        logged_at_s, left_out_count = self._denied.get(key, (-REPEAT_S, 0))
        if now_s - logged_at_s < REPEAT_S:
            self._denied[key] = (logged_at_s, left_out_count + 1)
            return
        self._denied.pop(key, None)
        if len(self._denied) >= MAX_REMEMBERED:
            del self._denied[next(iter(self._denied))]
        self._denied[key] = (now_s, 0)
        log.info(
            "authorizer.denied",
            principal=str(principal),
            host=host,
            operation=operation.title,
            resource=str(resource),
            request=request,
            resource_ref_count=resource_ref_count,
            left_out_count=left_out_count,
        )

    def allowed(
        self,
        principal: Principal,
        host: str,
        operation: Operation,
        resource: ResourcePattern,
        *,
        request: str,
        resource_ref_count: int,
    ) -> None:
        """Log that a request was allowed an operation; call this only if `logs_allowed`."""
        log.debug(
            "authorizer.allowed",
            principal=str(principal),
            host=host,
            operation=operation.title,
            resource=str(resource),
            request=request,
            resource_ref_count=resource_ref_count,
        )
