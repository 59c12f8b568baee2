"""`ottla logs` finds every log of our storage healthy, even while the log is open."""

import tempfile
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st

from kafkawire.compression import Codec
from kafkawire.ids import LeaderEpoch, Offset, TopicPartition
from kafkawire.records import BatchBuilder, read_header
from ottla.cli.logs.partition_verification import VerifyOptions
from ottla.cli.logs.verify import verify_directories
from storage.config.log_config import LogConfig
from storage.log.log import Log

PARTITION = TopicPartition("orders", 0)
NOW_MS = 1_700_000_000_000
CONFIG = LogConfig(segment_bytes=2_000, index_interval_bytes=200, segment_index_bytes=96)

appends = st.tuples(
    st.just("append"),
    st.integers(1, 8),
    st.integers(0, 1_000),
    st.sampled_from(list(Codec)),
    st.integers(0, 1),
)
operations = st.lists(
    st.one_of(
        appends,
        appends,
        appends,
        st.tuples(st.just("roll")),
        st.tuples(st.just("truncate"), st.integers(0, 20)),
        st.tuples(st.just("flush")),
    ),
    max_size=25,
)


class Writer:
    """A log under random operations."""

    def __init__(self, directory: Path) -> None:
        directory.mkdir()
        self.epoch = LeaderEpoch(0)
        self.log = Log.open(
            directory,
            CONFIG,
            topic_partition=PARTITION,
            recovery_point=Offset(0),
            log_start_offset=Offset(0),
            was_clean=True,
            now_ms=NOW_MS,
        )

    def run(self, operation: tuple[object, ...]) -> None:
        match operation:
            case ("append", int(count), int(time_ms), Codec() as codec, int(epochs)):
                self.append(count, time_ms, codec, epochs)
            case ("roll",):
                self.log.upkeep.roll(NOW_MS)
            case ("truncate", int(back)):
                self.log.truncate_to(Offset(max(0, self.log.log_end_offset - back)))
            case ("flush",):
                self.log.upkeep.flush()
            case _:
                raise AssertionError(operation)

    def append(self, count: int, time_ms: int, codec: Codec, epochs: int) -> None:
        self.epoch = LeaderEpoch(self.epoch + epochs)
        builder = BatchBuilder(codec=codec)
        for number in range(count):
            builder.append(NOW_MS + time_ms - number, b"key", b"value %d" % number)
        batch = builder.build()
        self.log.append_as_leader(memoryview(batch), read_header(batch), self.epoch, NOW_MS)


@settings(max_examples=60, deadline=None)
@given(operations)
def test_our_own_logs_are_found_healthy(steps: list[tuple[object, ...]]) -> None:
    with tempfile.TemporaryDirectory() as temporary:
        directory = Path(temporary) / str(PARTITION)
        writer = Writer(directory)
        for step in steps:
            writer.run(step)
        [open_result] = verify_directories([directory], VerifyOptions(with_records=True))
        assert open_result.findings == []
        writer.log.upkeep.close()
        [closed_result] = verify_directories([directory], VerifyOptions(with_records=True))
        assert closed_result.findings == []
        assert closed_result.log_end_offset == writer.log.log_end_offset
        assert closed_result.notes == []
