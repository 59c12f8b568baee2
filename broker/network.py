"""What the connections of one broker share (composition)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from broker.buffer_pool import BufferPool
from broker.network_limits import NetworkLimits
from broker.network_metrics import NetworkMetrics
from broker.receive_memory import ReceiveMemory
from broker.request_channel import RequestChannel
from broker.response_sender import ReadAhead


@dataclass(frozen=True, slots=True, kw_only=True)
class Network:
    """One of each for all listeners."""

    channel: RequestChannel
    pool: BufferPool
    memory: ReceiveMemory
    limits: NetworkLimits
    metrics: NetworkMetrics
    clock: Callable[[], float]
    read_ahead: ReadAhead
