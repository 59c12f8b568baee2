"""Controlled shutdown (edge): the controller moves leaderships away before this broker stops.

Source: kafka.server.KafkaServer.controlledShutdown of Kafka 3.9.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import structlog

from broker.cluster.controller_link import ControllerLink
from broker.cluster.metadata_cache import ClusterImage
from broker.cluster.metadata_watch import MetadataWatch
from broker.config.server_keys import ServerKeys
from kafkawire.errors import ErrorCode, name_of
from kafkawire.ids import BrokerId
from kafkawire.messages.controlled_shutdown import (
    ControlledShutdownRequest,
    ControlledShutdownResponse,
)

log = structlog.get_logger(__name__)


async def hand_over(
    broker_id: BrokerId,
    broker_epoch: Callable[[], int],
    controller: ControllerLink,
    watch: MetadataWatch,
    config: ServerKeys,
    coordinator_silence: Callable[[], Awaitable[object]],
) -> bool:
    """Request a controlled shutdown; return False if it has failed.

    True means that this broker leads no partition that another broker could lead. It fails after
    all retries, or when `coordinator_silence` returns: no controller can move a leadership without
    the coordinator. Unlike Kafka's, this broker does not wait for others if it is the last one.
    """
    requests = _request_until_done(broker_id, broker_epoch, controller, watch, config)
    requesting = asyncio.ensure_future(requests)
    silence = asyncio.ensure_future(coordinator_silence())
    try:
        await asyncio.wait((requesting, silence), return_when=asyncio.FIRST_COMPLETED)
        if requesting.done():
            return requesting.result()
        log.warning("shutdown.not_controlled", reason="the coordinator does not answer")
        return False
    finally:
        requesting.cancel()
        silence.cancel()
        await asyncio.wait((requesting, silence))


async def _request_until_done(
    broker_id: BrokerId,
    broker_epoch: Callable[[], int],
    controller: ControllerLink,
    watch: MetadataWatch,
    config: ServerKeys,
) -> bool:

    def is_last(image: ClusterImage) -> bool:
        return image.brokers.keys() <= {broker_id}

    attempts = config.controlled_shutdown_max_retries
    for left in reversed(range(attempts)):
        if is_last(watch.image):
            log.info("shutdown.alone")
            return True
        request = ControlledShutdownRequest(broker_id=broker_id, broker_epoch=broker_epoch())
        if await _has_handed_over(request, controller):
            log.info("shutdown.controlled", attempt=attempts - left)
            return True
        if left:
            await watch.wait_for(is_last, config.controlled_shutdown_retry_backoff_ms)
    log.warning("shutdown.not_controlled", attempts=attempts)
    return False


async def _has_handed_over(request: ControlledShutdownRequest, controller: ControllerLink) -> bool:
    try:
        response = await controller.ask(request, ControlledShutdownResponse)
    except OSError as error:
        log.info("shutdown.not_answered", error=str(error))
        return False
    if response.error_code != ErrorCode.NONE:
        log.info("shutdown.refused", error=name_of(response.error_code))
        return False
    if response.remaining_partitions:
        log.info("shutdown.partitions_left", partition_count=len(response.remaining_partitions))
        return False
    return True
