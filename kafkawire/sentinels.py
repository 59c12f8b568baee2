"""Numbers with a special meaning in Kafka's requests, records and files (decision).

Sources: the message definitions of Kafka 3.9, and its classes RecordBatch, ListOffsetsRequest and
ProduceRequest.
"""

from typing import Final

from kafkawire.ids import BrokerId, LeaderEpoch, Offset

NO_LEADER: Final = BrokerId(-1)
NO_EPOCH: Final = LeaderEpoch(-1)
"""No leader epoch, or an unknown one."""
NO_OFFSET: Final = Offset(-1)
MAX_OFFSET: Final = 2**63 - 1
"""Greater than the offset of any record."""
NO_TIMESTAMP: Final = -1
NO_PRODUCER_ID: Final = -1
NO_PRODUCER_EPOCH: Final = -1
NO_SEQUENCE: Final = -1
UNKNOWN_BROKER_EPOCH: Final = -1
"""Broker epoch in requests of brokers that do not know theirs, or of older versions."""

OPERATIONS_NOT_ASKED_FOR: Final = -(2**31)
"""Instead of the bits of allowed operations, if the request does not ask for them."""

CONSUMER_REPLICA_ID: Final = -1
"""Replica id in the requests of clients; followers send their broker id."""
LATEST_TIMESTAMP: Final = -1
"""Timestamp in ListOffsets that requests the log end offset."""
EARLIEST_TIMESTAMP: Final = -2
"""Timestamp in ListOffsets that requests the log start offset."""
MAX_TIMESTAMP: Final = -3
"""Timestamp in ListOffsets that requests the record with the largest timestamp."""
EARLIEST_LOCAL_TIMESTAMP: Final = -4
"""Timestamp in ListOffsets that requests the first offset outside tiered storage."""
LATEST_TIERED_TIMESTAMP: Final = -5
"""Timestamp in ListOffsets that requests the last offset in tiered storage."""

READ_UNCOMMITTED: Final = 0
"""Isolation level of consumers that read up to the high watermark."""
READ_COMMITTED: Final = 1
"""Isolation level of consumers that read up to the last stable offset."""
ISOLATION_LEVELS: Final = (READ_UNCOMMITTED, READ_COMMITTED)

ACKS_ALL: Final = -1
ACKS_NONE: Final = 0
ACKS_LEADER: Final = 1
