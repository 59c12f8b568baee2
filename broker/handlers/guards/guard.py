"""Checks the rights of senders, and guards that many APIs share (edge: it writes the audit log).

A guard stands before the handler of an API. It removes denied items from the request, and adds
their errors to the response. A handler therefore never sees a resource that its client may not use,
and a broker without an authorizer has no guards at all.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import Any, Generic, TypeVar

from broker.handlers.handler_table import Parts
from broker.network.reply import Reply, after
from broker.network.request import Request
from broker.network.router import Handler
from broker.security.audit import Audit
from broker.security.authorizer import Authorizer
from kafkawire.acl import CLUSTER_NAME, OPERATION_BITS, Operation, ResourcePattern, ResourceType
from kafkawire.apis import ApiKey

I = TypeVar("I")  # noqa: E741 - an item of a request
Maker = Callable[[Parts, "Guard", Handler], Handler]
"""Returns the handler of an API with its guard."""


class Guard:
    """Decides for the sender of a request, and logs the decision.

    Probes and filters of lists are not logged, because nothing was requested by name.
    """

    def __init__(self, authorizer: Authorizer, audit: Audit) -> None:
        self._authorizer = authorizer
        self._audit = audit
        self.logs_allowed = audit.logs_allowed
        """Whether allowed operations are logged."""

    def allows(
        self,
        request: Request,
        operation: Operation,
        kind: ResourceType,
        name: str,
        *,
        is_logged: bool = True,
        count: int = 1,
    ) -> bool:
        """Whether the sender may do an operation on a resource that the request names."""
        connection = request.queue.connection
        principal, host = connection.principal, connection.client_host
        mask = self._authorizer.operations(principal, host, kind, name)
        is_allowed = mask >> operation & 1
        if is_logged and (not is_allowed or self.logs_allowed):
            note = self._audit.allowed if is_allowed else self._audit.denied
            note(
                principal,
                host,
                operation,
                ResourcePattern(kind, name),
                request=ApiKey(request.header.api_key).name,
                resource_ref_count=count,
            )
        return bool(is_allowed)

    def allows_on_cluster(
        self, request: Request, operation: Operation, *, is_logged: bool = True
    ) -> bool:
        """Whether the sender may do an operation on the cluster."""
        return self.allows(
            request, operation, ResourceType.CLUSTER, CLUSTER_NAME, is_logged=is_logged
        )

    def allows_on_any(self, request: Request, operation: Operation, kind: ResourceType) -> bool:
        """Whether the sender may do an operation on at least one resource of a type."""
        connection = request.queue.connection
        return self._authorizer.allows_on_any(
            connection.principal, connection.client_host, operation, kind
        )

    def sift(
        self,
        request: Request,
        operation: Operation,
        kind: ResourceType,
        names: Iterable[str],
        *,
        is_logged: bool = True,
    ) -> set[str]:
        """Return the names of the resources on which the operation is allowed."""
        return {
            name
            for name, count in Counter(names).items()
            if self.allows(request, operation, kind, name, is_logged=is_logged, count=count)
        }

    def allows_all(
        self, request: Request, operation: Operation, kind: ResourceType, names: Iterable[str]
    ) -> bool:
        """Whether the operation is allowed on each resource; not logged.

        The common case of `sift`, in one loop. False if allowed operations must be logged.
        """
        if self.logs_allowed:
            return False
        connection = request.queue.connection
        principal, host = connection.principal, connection.client_host
        decide = self._authorizer.operations
        for name in names:  # noqa: SIM110 - a generator would cost another 0.1 us
            if not decide(principal, host, kind, name) >> operation & 1:
                return False
        return True

    def operations(self, request: Request, kind: ResourceType, name: str) -> int:
        """Return the bits of the allowed operations, for a response."""
        connection = request.queue.connection
        mask = self._authorizer.operations(connection.principal, connection.client_host, kind, name)
        return mask & OPERATION_BITS[kind]


@dataclass(frozen=True, slots=True, kw_only=True)
class Sieve(Generic[I]):
    """A guard for requests with a list of items, each with the name of a resource.

    The fields `items` of the request and `results` of the `response` hold the lists. `refuse`
    returns the result of a denied item.
    """

    operation: Operation
    kind: ResourceType
    items: str
    name: Callable[[I], str]
    response: Callable[..., Any]
    results: str
    refuse: Callable[[I], object]

    def make(self, _parts: Parts, guard: Guard, handle: Handler) -> Handler:
        """Return `handle` behind this guard."""
        return lambda request, message: self.apply(guard, request, message, handle)

    def apply(
        self,
        guard: Guard,
        request: Request,
        message: Any,
        handle: Handler,
        allowed: set[str] | None = None,
    ) -> Reply:
        """Call `handle` for the allowed items; it is not called if there is none."""
        items = getattr(message, self.items)
        if allowed is None:
            names = [self.name(item) for item in items]
            if guard.allows_all(request, self.operation, self.kind, names):
                return handle(request, message)
            allowed = guard.sift(request, self.operation, self.kind, names)
        denied = [item for item in items if self.name(item) not in allowed]
        if not denied:
            return handle(request, message)
        refused = [self.refuse(item) for item in denied]
        left = [item for item in items if self.name(item) in allowed]
        if not left:
            return Reply(self.response(**{self.results: refused}))

        def add(response: Any) -> object:
            setattr(response, self.results, [*getattr(response, self.results), *refused])
            return response

        return after(handle(request, replace(message, **{self.items: left})), add)


def of_cluster(operation: Operation, refuse: Callable[[Request, Any], object]) -> Maker:
    """Return the guard of an API that needs one operation on the cluster."""

    def make(_parts: Parts, guard: Guard, handle: Handler) -> Handler:
        def guarded(request: Request, message: Any) -> Reply:
            if guard.allows_on_cluster(request, operation):
                return handle(request, message)
            return Reply(refuse(request, message))

        return guarded

    return make
