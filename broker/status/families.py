"""Every metric of a broker, for its page in the documentation (composition)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from broker.status.controller_metrics import CONTROLLER_FAMILIES
from broker.status.gauge_families import GAUGE_FAMILIES
from broker.status.group_metrics import GROUP_FAMILIES
from broker.status.loop_watch import LOOP_FAMILIES
from broker.status.metric_sources import OTHER_FAMILIES
from broker.status.partition_metrics import PARTITION_FAMILIES
from broker.status.quota_metrics import QUOTA_FAMILIES
from broker.status.request_metrics import REQUEST_FAMILIES
from broker.status.topic_metrics import TOPIC_FAMILIES
from monitoring.exposition import Family
from monitoring.process_metrics import PROCESS_FAMILIES

FAMILIES: Final[Mapping[str, Sequence[Family]]] = {
    "Broker": (*GAUGE_FAMILIES.values(), *OTHER_FAMILIES),
    "Topics": TOPIC_FAMILIES,
    "Partitions": PARTITION_FAMILIES,
    "Requests": REQUEST_FAMILIES,
    "Consumer groups": GROUP_FAMILIES,
    "Clients with quotas": QUOTA_FAMILIES,
    "Controller": CONTROLLER_FAMILIES,
    "Event loop": LOOP_FAMILIES,
    "Process": PROCESS_FAMILIES,
}
"""By the part of the broker."""
