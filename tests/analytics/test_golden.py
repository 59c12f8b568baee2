"""Logs cleaned by Apache Kafka 3.9.1 pass every audit: keys, tombstones, transactions, indexes.

`python -m tests.interop.storage.golden_cleaned_log` generates them. The later rounds contain
tombstones and markers past their delete horizon.
"""

import base64
import json
from pathlib import Path
from typing import Any

import pytest

from logcheck.rule import Rules
from tests.analytics.audited import findings_of, summaries_of
from tests.analytics.log_model import add_checkpoint

GOLDEN = Path(__file__).parents[1] / "unit" / "storage" / "golden_cleaned_log.json"
ROUNDS = json.loads(GOLDEN.read_text(encoding="utf-8"))
DELETE_RETENTION_MS = 1_000


def write(files: dict[str, str], root: Path, cleaner_point: int | None) -> Path:
    (root / "orders-0").mkdir(parents=True)
    for name, data in files.items():
        (root / "orders-0" / name).write_bytes(base64.b64decode(data))
    if cleaner_point is not None:
        add_checkpoint(root / "cleaner-offset-checkpoint", "orders", 0, cleaner_point)
    return root


@pytest.mark.parametrize("golden", ROUNDS, ids=lambda each: f"{each['dirty_from']}")
def test_log_cleaned_by_kafka_passes(tmp_path: Path, golden: dict[str, Any]) -> None:
    rules = Rules(now_ms=golden["now_ms"], delete_retention_ms=DELETE_RETENTION_MS)
    raw = write(golden["before"], tmp_path / "raw", golden["dirty_from"] or None)
    clean = write(golden["after"], tmp_path / "clean", golden["end_offset"])
    assert findings_of("compaction", clean, against=raw, rules=rules) == []
    assert findings_of("integrity", clean, rules=rules) == []
    assert findings_of("replicas", raw, clean, rules=rules) == []
    [summary] = summaries_of("cost", clean, rules=rules)
    assert summary["keys"] > 0
