"""A process that appends to a log until it is killed, and prints every appended offset.

`python -m tests.integration.storage.appender LOG_DIR SEED`. The content of a record depends only on
its offset, so that a reader can check every record.
"""

import random
import sys
from pathlib import Path

from kafkawire.compression import Codec
from kafkawire.ids import LeaderEpoch, TopicId, TopicPartition
from kafkawire.records import BatchBuilder, read_header
from storage.config.log_config import LogConfig
from storage.directory.logs import Logs

PARTITION = TopicPartition("crash", 0)
CONFIG = LogConfig(segment_bytes=64 * 1024, index_interval_bytes=1024)
NOW_MS = 1_700_000_000_000
TOPIC_ID = TopicId(int=1)
FLUSH_CHANCE = 0.03


def value_of(offset: int) -> bytes:
    """Return the value of the record at `offset`."""
    return random.Random(offset).randbytes(offset % 700)


def open_logs(path: Path) -> Logs:
    return Logs.open([path], config_of=lambda _topic: CONFIG, now_ms=NOW_MS)


def report(event: str, offset: int) -> None:
    sys.stdout.write(f"{event} {offset}\n")
    sys.stdout.flush()


def run(path: Path, dice: random.Random) -> None:
    logs = open_logs(path)
    log = logs.create(PARTITION, CONFIG, TOPIC_ID, now_ms=NOW_MS)
    epoch = LeaderEpoch(log.leader_epochs.latest + 1)
    report("opened", log.log_end_offset)
    while True:
        builder = BatchBuilder(codec=dice.choice(list(Codec)))
        for number in range(dice.randint(1, 20)):
            offset = log.log_end_offset + number
            builder.append(NOW_MS + offset, b"%d" % offset, value_of(offset))
        batch = builder.build()
        log.append_as_leader(memoryview(batch), read_header(batch), epoch, NOW_MS)
        report("appended", log.log_end_offset)
        if dice.random() < FLUSH_CHANCE:
            log.upkeep.flush()
            logs.checkpoints.write_bounds()
            report("flushed", log.recovery_point)


if __name__ == "__main__":
    run(Path(sys.argv[1]), random.Random(int(sys.argv[2])))
