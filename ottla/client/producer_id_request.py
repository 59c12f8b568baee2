"""Asks the cluster for a producer id. Edge: one background task, one request at a time."""

import logging
from collections.abc import Callable
from math import inf
from typing import Final

from kafkawire.errors import ErrorCode
from kafkawire.ids import ProducerId
from kafkawire.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from ottla.client.cluster import Cluster
from ottla.client.config import MAX_INT32
from ottla.client.errors import (
    OttlaError,
    ProtocolError,
    UnsupportedVersionError,
    broker_error,
)
from ottla.client.retry import retry

log = logging.getLogger(__name__)

NO_TRANSACTION_TIMEOUT_MS: Final = MAX_INT32


class ProducerIdRequest:
    """Gets ids; tries again, with backoff, until the producer is closed or refused for good."""

    def __init__(
        self,
        cluster: Cluster,
        on_given: Callable[[ProducerId, int], None],
        on_refused: Callable[[OttlaError], None],
    ) -> None:
        """`on_given` is called with id and epoch, `on_refused` with what no retry can mend."""
        self._cluster = cluster
        self._on_given = on_given
        self._on_refused = on_refused
        self.was_refused = False
        self._is_under_way = False

    def begin(self) -> None:
        """Ask for an id, unless that is under way; a callback tells the outcome."""
        if not self._is_under_way:
            self._is_under_way = True
            self._cluster.spawn(self._run(), "ask for a producer id")

    async def _run(self) -> None:
        try:
            answer = await retry(self._ask, self._cluster.backoff, inf, _may_pass)
        except OttlaError as error:
            log.warning("producer_id.refused error=%s", error)
            self._is_under_way = False
            self.was_refused = True
            self._on_refused(error)
            return
        self._is_under_way = False
        log.info("producer_id.given id=%d epoch=%d", answer.producer_id, answer.producer_epoch)
        self._on_given(ProducerId(answer.producer_id), answer.producer_epoch)

    async def _ask(self) -> InitProducerIdResponse:
        request = InitProducerIdRequest(
            transactional_id=None, transaction_timeout_ms=NO_TRANSACTION_TIMEOUT_MS
        )
        try:
            answer = await self._cluster.request_any(request, InitProducerIdResponse)
        except UnsupportedVersionError as error:
            raise UnsupportedVersionError(f"{error}, or set enable_idempotence=False") from error
        if answer.error_code != ErrorCode.NONE:
            raise broker_error(answer.error_code, "the request for a producer id")
        return answer


def _may_pass(error: OttlaError) -> bool:
    return error.retriable or isinstance(error, ProtocolError)
