"""Requests a producer id from the cluster (edge)."""

import logging
from collections.abc import Callable
from math import inf
from typing import Final

from kafkawire.errors import ErrorCode
from kafkawire.ids import ProducerId
from kafkawire.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from ottla.client.argument import MAX_INT32
from ottla.client.errors import (
    OttlaError,
    ProtocolError,
    TokenProviderError,
    UnsupportedVersionError,
    broker_error,
)
from ottla.client.network.cluster import Cluster
from ottla.client.retry import retry

log = logging.getLogger(__name__)

NO_TRANSACTION_TIMEOUT_MS: Final = MAX_INT32


class ProducerIdRequest:
    """Obtains ids; retries with back-off until the producer is closed or permanently refused."""

    def __init__(
        self,
        cluster: Cluster,
        on_given: Callable[[ProducerId, int], None],
        on_refused: Callable[[OttlaError], None],
    ) -> None:
        """Call `on_given` with id and epoch, or `on_refused` with a permanent error."""
        self._cluster = cluster
        self._on_given = on_given
        self._on_refused = on_refused
        self.was_refused = False
        self._is_in_flight = False

    def begin(self) -> None:
        """Request an id unless a request is in flight; a callback reports the outcome."""
        if not self._is_in_flight:
            self._is_in_flight = True
            self._cluster.spawn(self._run(), "ask for a producer id")

    async def _run(self) -> None:
        try:
            response = await retry(self._ask, self._cluster.backoff, inf, _may_pass)
        except OttlaError as error:
            log.warning("producer_id.refused error=%s", error)
            self._is_in_flight = False
            self.was_refused = True
            self._on_refused(error)
            return
        self._is_in_flight = False
        log.info("producer_id.given id=%d epoch=%d", response.producer_id, response.producer_epoch)
        self._on_given(ProducerId(response.producer_id), response.producer_epoch)

    async def _ask(self) -> InitProducerIdResponse:
        request = InitProducerIdRequest(
            transactional_id=None, transaction_timeout_ms=NO_TRANSACTION_TIMEOUT_MS
        )
        try:
            # An id that nobody uses does no harm.
            response = await self._cluster.request_any(
                request, InitProducerIdResponse, may_repeat=True
            )
        except UnsupportedVersionError as error:
            raise UnsupportedVersionError(f"{error}, or set enable_idempotence=False") from error
        if response.error_code != ErrorCode.NONE:
            raise broker_error(response.error_code, "the request for a producer id")
        require_identity(response)
        return response


def require_identity(response: InitProducerIdResponse) -> None:
    """Require that a successful response names a producer id and an epoch.

    Raises:
        ProtocolError: it does not; under -1 brokers would recognise no duplicate.
    """
    if response.producer_id < 0 or response.producer_epoch < 0:
        raise ProtocolError(
            f"the broker gave producer id {response.producer_id}, epoch {response.producer_epoch}"
        )


def _may_pass(error: OttlaError) -> bool:
    return error.retriable or isinstance(error, ProtocolError | TokenProviderError)
