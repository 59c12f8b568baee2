"""The objects shared by all connections of one broker (composition)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from broker.network.buffer_pool import BufferPool
from broker.network.limits import NetworkLimits
from broker.network.metrics import NetworkMetrics
from broker.network.receive_memory import ReceiveMemory
from broker.network.request_channel import RequestChannel
from broker.network.response_sender import ReadAhead


@dataclass(frozen=True, slots=True, kw_only=True)
class Network:
    """Objects shared by all listeners and connections."""

    channel: RequestChannel
    pool: BufferPool
    memory: ReceiveMemory
    limits: NetworkLimits
    metrics: NetworkMetrics
    clock: Callable[[], float]
    read_ahead: ReadAhead
