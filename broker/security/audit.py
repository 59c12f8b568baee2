"""The audit log: denied operations at info, allowed ones at debug (edge).

A client that repeats a denied operation must not fill the disk: each principal, resource and
operation gets one line per `REPEAT_S`, and the next line says how many were left out. Nor must one
that invents names: a principal gets `MAX_LINES` per `REPEAT_S`, and long names are cut. Names are
values of the event, never part of its text.

Source: the logger `kafka.authorizer.logger` of Kafka 3.9.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Final

import structlog

from broker.security.principal import Principal
from kafkawire.acl import Operation, ResourcePattern

REPEAT_S: Final = 10.0
MAX_REMEMBERED: Final = 1_000
"""Limit of denials that are remembered. Beyond it, the oldest line may be repeated sooner."""
MAX_LINES: Final = 200
"""Limit of lines about one principal's denials within `REPEAT_S`. A request can name 10,000 names,
and each line costs 20 us."""
MAX_NAME: Final = 255
"""Limit of the characters of a name in a line."""

log = structlog.get_logger(__name__)


@dataclass(slots=True)
class Lines:
    """The lines about one principal's denials since `began_at_s`."""

    began_at_s: float
    count: int = 0
    left_out_count: int = 0


class Audit:
    """Logs decisions."""

    def __init__(self, clock: Callable[[], float], *, logs_allowed: bool) -> None:
        """`logs_allowed` says whether the level of the log includes debug."""
        self.logs_allowed = logs_allowed
        self._clock = clock
        # By principal, resource and operation: the time of the last line, and the denials since.
        self._denied: dict[tuple[Principal, ResourcePattern, Operation], tuple[float, int]] = {}
        self._lines: dict[Principal, Lines] = {}

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
        if len(resource.name) > MAX_NAME:
            resource = replace(resource, name=resource.name[:MAX_NAME])
        key, now_s = (principal, resource, operation), self._clock()
        logged_at_s, left_out_count = self._denied.get(key, (-REPEAT_S, 0))
        if now_s - logged_at_s < REPEAT_S:
            self._denied[key] = (logged_at_s, left_out_count + 1)
            return
        if not self._has_line(principal, now_s):
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

    def _has_line(self, principal: Principal, now_s: float) -> bool:
        """Take a line for a denial of `principal`, unless it had too many."""
        lines = self._lines.get(principal)
        if lines is None or now_s - lines.began_at_s >= REPEAT_S:
            if lines is not None:
                del self._lines[principal]
                if lines.left_out_count:
                    self._note_left_out(principal, lines)
            if len(self._lines) >= MAX_REMEMBERED:
                del self._lines[next(iter(self._lines))]
            lines = self._lines[principal] = Lines(now_s)
        if lines.count < MAX_LINES:
            lines.count += 1
            return True
        lines.left_out_count += 1
        if lines.left_out_count == 1:
            # At once as well, because there may be no later denial.
            self._note_left_out(principal, lines)
        return False

    def _note_left_out(self, principal: Principal, lines: Lines) -> None:
        log.warning(
            "authorizer.denials_left_out",
            principal=str(principal),
            left_out_count=lines.left_out_count,
        )
