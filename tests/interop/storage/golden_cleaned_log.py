"""`python -m tests.interop.storage.golden_cleaned_log` creates golden logs with Kafka's cleaner.

Each is a log before and after a round of Kafka's own cleaner, with all arguments of the round.
"""

import base64
import json
import random
import tempfile
from pathlib import Path

from tests.interop.storage.test_kafka_cleaner import clean_by_kafka, copy_of
from tests.unit.storage.busy_log import BusyLog
from tests.unit.storage.compacting import COMPACTED
from tests.unit.storage.logs import NOW_MS, open_log

GOLDEN = Path(__file__).parents[2] / "unit" / "storage" / "golden_cleaned_log.json"
SUFFIXES = (".log", ".index", ".timeindex", ".txnindex")


def files(directory: Path) -> dict[str, str]:
    return {
        path.name: base64.b64encode(path.read_bytes()).decode()
        for path in sorted(directory.iterdir())
        if path.suffix in SUFFIXES
    }


def rounds(directory: Path, seed: int) -> list[dict[str, object]]:
    log = open_log(directory / "orders-0", COMPACTED)
    busy = BusyLog(log, random.Random(seed), key_count=6)
    made: list[dict[str, object]] = []
    dirty_from, now_ms = 0, NOW_MS + 1_000
    for _ in range(3):
        busy.append_some(25)
        busy.finish()
        theirs = copy_of(log, directory / "kafka" / "orders-0")
        before = files(theirs)
        end = clean_by_kafka(theirs, now_ms, dirty_from, log.log_end_offset, 1_000)
        told = {"now_ms": now_ms, "dirty_from": dirty_from, "end_offset": end}
        made.append(told | {"before": before, "after": files(theirs)})
        # The next round continues with the files that Kafka has left.
        for path in (directory / "orders-0").iterdir():
            path.unlink()
        for path in theirs.iterdir():
            if path.suffix in (".log", ".txnindex"):
                (directory / "orders-0" / path.name).write_bytes(path.read_bytes())
        busy.log = log = open_log(directory / "orders-0", COMPACTED, was_clean=False)
        dirty_from, now_ms = end, now_ms + 600
    return made


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        golden = [each for seed in (1, 2) for each in rounds(Path(folder) / str(seed), seed)]
    GOLDEN.write_text(json.dumps(golden, indent=1) + "\n")
