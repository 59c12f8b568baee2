"""Logs cleaned by Kafka 3.9.1: our cleaner produces the same bytes, and our checks accept them.

Made by `python -m tests.interop.storage.golden_cleaned_log`.
"""

import base64
import json
from dataclasses import dataclass
from pathlib import Path

import pytest

from ottla.cli.logs.partition_verification import VerifyOptions
from ottla.cli.logs.verify import verify_directories
from tests.unit.storage.compacting import COMPACTED, clean, records_of
from tests.unit.storage.logs import check_files, open_log

GOLDEN = Path(__file__).with_name("golden_cleaned_log.json")


@dataclass
class Round:
    """A log before and after a round of Kafka's cleaner, and the settings of the round."""

    now_ms: int
    dirty_from: int
    end_offset: int
    before: dict[str, str]
    after: dict[str, str]


ROUNDS = [Round(**each) for each in json.loads(GOLDEN.read_text(encoding="utf-8"))]


def write(files: dict[str, str], directory: Path) -> Path:
    directory.mkdir(parents=True)
    for name, data in files.items():
        (directory / name).write_bytes(base64.b64decode(data))
    return directory


def logs_in(files: dict[str, str]) -> dict[str, str]:
    return {name: data for name, data in files.items() if name.endswith(".log")}


@pytest.mark.parametrize("number", range(len(ROUNDS)))
def test_our_cleaner_writes_the_same_bytes_as_kafkas(tmp_path: Path, number: int) -> None:
    golden = ROUNDS[number]
    log = open_log(write(golden.before, tmp_path / "orders-0"), COMPACTED, was_clean=False)
    assert clean(log, dirty_from=golden.dirty_from, now_ms=golden.now_ms) == golden.end_offset
    log.upkeep.close()
    left = {
        path.name: base64.b64encode(path.read_bytes()).decode()
        for path in log.directory.glob("*.log")
    }
    assert left == logs_in(golden.after) != logs_in(golden.before)
    check_files(log.directory, COMPACTED.index_interval_bytes)


@pytest.mark.parametrize("number", range(len(ROUNDS)))
def test_log_cleaned_by_kafka_passes_our_checks(tmp_path: Path, number: int) -> None:
    golden = ROUNDS[number]
    directory = write(golden.after, tmp_path / "orders-0")
    (result,) = verify_directories([tmp_path], VerifyOptions(with_records=True))
    assert result.findings == []
    log = open_log(directory, COMPACTED)
    assert log.log_end_offset == golden.end_offset
    keys = [each.key for each in records_of(log)]
    assert len(keys) == len(set(keys)) > 5


def test_golden_rounds_cover_all_kinds_of_records() -> None:
    assert len(ROUNDS) == 6
    names = {Path(name).suffix for golden in ROUNDS for name in golden.before}
    assert names == {".log", ".index", ".timeindex", ".txnindex"}
