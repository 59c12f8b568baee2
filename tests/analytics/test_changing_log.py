"""Logs whose files change while `ottla logs verify` or an audit reads them."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from analytics.plan import Audit
from kafkawire.ids import Offset
from logcheck.finding import Check, Finding
from logcheck.index_files import IndexBytes, IndexFiles
from logcheck.replica_files import SegmentFiles
from logcheck.rule import Rules
from storage.log.log import Log
from tests.analytics.histories.verdicts import audited, verified
from tests.unit.storage.logs import NOW_MS, SMALL, append, fill, open_log

Verdict = Callable[[Path], list[Finding]]
ONE_SEGMENT = replace(SMALL, segment_bytes=100_000)
RULES = Rules(now_ms=NOW_MS)
VERDICTS: dict[str, Verdict] = {
    "verify": lambda root: verified([root], RULES),
    "integrity": lambda root: audited(Audit.INTEGRITY, [root], RULES),
}


@pytest.fixture
def log(tmp_path: Path) -> Log:
    log = open_log(tmp_path / "orders-0", ONE_SEGMENT)
    fill(log, 30)
    log.upkeep.flush()
    return log


@pytest.fixture
def on_read(monkeypatch: pytest.MonkeyPatch) -> list[Callable[[], object]]:
    """Return a list of calls, one of which follows each reading of the indexes."""
    calls: list[Callable[[], object]] = []
    read = IndexFiles.read

    def read_and_call(self: IndexFiles, files: SegmentFiles) -> IndexBytes:
        data = read(self, files)
        calls.pop(0)()
        return data

    monkeypatch.setattr(IndexFiles, "read", read_and_call)
    return calls


def index_findings(found: list[Finding]) -> list[Finding]:
    return [each for each in found if each.check in (Check.OFFSET_INDEX, Check.TIME_INDEX)]


@pytest.mark.parametrize("verdict", VERDICTS.values(), ids=VERDICTS.keys())
def test_log_that_a_follower_truncates_after_its_index_was_read_has_no_fault(
    log: Log, on_read: list[Callable[[], object]], verdict: Verdict
) -> None:
    def truncate() -> None:
        log.truncate_to(Offset(13))
        for _ in range(30):
            append(log, [NOW_MS] * 7)
        log.upkeep.flush()

    on_read += [truncate, lambda: None]
    assert index_findings(verdict(log.directory.parent)) == []
    assert on_read == []


@pytest.mark.parametrize("verdict", VERDICTS.values(), ids=VERDICTS.keys())
def test_damage_in_a_log_at_rest_is_found_in_one_pass(
    log: Log, on_read: list[Callable[[], object]], verdict: Verdict
) -> None:
    log.upkeep.close()
    index = next(log.directory.glob("*.index"))
    data = bytearray(index.read_bytes())
    data[7] ^= 1
    index.write_bytes(data)
    on_read.append(lambda: None)
    assert index_findings(verdict(log.directory.parent)) != []
