"""Finds the coordinator of a group or a transactional id, and sends requests to it (edge).

Invariant: after a broker did not respond, or is not the coordinator, the coordinator is looked up
again before the next request.
"""

import enum
from typing import Final, Protocol, TypeVar

from kafkawire.errors import ErrorCode
from kafkawire.ids import BrokerId, TopicPartition
from kafkawire.messages.find_coordinator import (
    KEYS_SINCE,
    FindCoordinatorRequest,
    FindCoordinatorResponse,
)
from kafkawire.messages.find_coordinator import Coordinator as FoundCoordinator
from ottla.client.client_config import Address
from ottla.client.errors import BrokerError, OttlaError, broker_error, no_result
from ottla.client.network.cluster import Cluster
from ottla.client.network.connection_pool import Purpose

R = TypeVar("R")


class KeyType(enum.IntEnum):
    """The kind of a coordinator's key, with the protocol's number for it."""

    GROUP = 0
    TRANSACTION = 1


_NOUNS: Final = {KeyType.GROUP: "group", KeyType.TRANSACTION: "transactional id"}
_ELSEWHERE: Final = {ErrorCode.COORDINATOR_NOT_AVAILABLE, ErrorCode.NOT_COORDINATOR}


class Response(Protocol):
    """A response with one error code for the whole request."""

    error_code: int


A = TypeVar("A", bound=Response)


class Coordinator:
    """The coordinator of one key, which is the id of a group or a transactional id."""

    def __init__(self, cluster: Cluster, key_type: KeyType, key: str) -> None:
        self.key = key
        self.subject = f"{_NOUNS[key_type]} {key}"
        self._key_type = key_type
        self._cluster = cluster
        self._node: tuple[BrokerId, Address] | None = None

    @property
    def broker_id(self) -> BrokerId | None:
        """The broker that coordinates the key, None until it was looked up."""
        return None if self._node is None else self._node[0]

    def forget(self) -> None:
        """Look up the coordinator again before the next request."""
        self._node = None

    async def ask(
        self,
        message: object,
        response_type: type[A],
        *,
        purpose: Purpose = Purpose.CONTROL,
        timeout_s: float | None = None,
    ) -> A:
        """Send a request and return the response, unless its error code refuses the request.

        Raises:
            OttlaError: the coordinator cannot be found or reached, or refuses.
        """
        response = await self.request(message, response_type, purpose=purpose, timeout_s=timeout_s)
        if response.error_code != ErrorCode.NONE:
            raise self.refusal(response.error_code)
        return response

    async def request(
        self,
        message: object,
        response_type: type[R],
        *,
        purpose: Purpose = Purpose.CONTROL,
        timeout_s: float | None = None,
    ) -> R:
        """Send a request and return the response, including any error codes; see `refusal`.

        Raises:
            OttlaError: the coordinator cannot be found or reached.
        """
        broker_id, address = self._node or await self._find()
        try:
            return await self._cluster.request_at(
                broker_id, address, message, response_type, purpose=purpose, timeout_s=timeout_s
            )
        except OttlaError as error:
            self.on_refusal(error)
            raise

    def refusal(self, code: int, place: TopicPartition | None = None) -> OttlaError:
        """Return the error for a wire `code`; forget the coordinator if it is another broker.

        `place` is the partition that the code is about, None for the whole request.
        """
        error = broker_error(code, self.subject if place is None else f"{self.subject}, {place}")
        self.on_refusal(error)
        return error

    def on_refusal(self, error: OttlaError) -> None:
        """Forget the coordinator if `error` says that it may be another broker."""
        if is_elsewhere(error):
            self._node = None

    async def _find(self) -> tuple[BrokerId, Address]:
        def request(version: int) -> FindCoordinatorRequest:
            if version < KEYS_SINCE:
                return FindCoordinatorRequest(key=self.key, key_type=self._key_type)
            return FindCoordinatorRequest(coordinator_keys=[self.key], key_type=self._key_type)

        response = await self._cluster.request_any(
            request, FindCoordinatorResponse, may_repeat=True
        )
        rows = [row for row in response.coordinators if row.key == self.key]
        # From version 4 on the response has one row per key; its other fields are empty then.
        found: FoundCoordinator | FindCoordinatorResponse
        found = rows[0] if rows else response
        if found.error_code != ErrorCode.NONE:
            raise broker_error(
                found.error_code, f"coordinator of {self.subject}", found.error_message
            )
        if not found.host:
            raise no_result(f"the coordinator of {self.subject}")
        self._node = (BrokerId(found.node_id), Address(found.host, found.port))
        return self._node


def is_elsewhere(error: OttlaError) -> bool:
    """Whether the coordinator may be another broker by now, and has to be looked up again."""
    if isinstance(error, BrokerError):
        return error.code in _ELSEWHERE
    # The connection failed; a new one will show whether the coordinator did, too.
    return error.retriable
