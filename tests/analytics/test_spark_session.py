"""Which archive of classes a session starts with."""

from pathlib import Path

import pyspark
import pytest

from analytics.spark_session import _archive


def test_an_archive_belongs_to_the_jars_of_one_place(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    options = set()
    for place in (tmp_path / "one", tmp_path / "other"):
        (place / "jars").mkdir(parents=True)
        monkeypatch.setattr(pyspark, "__file__", str(place / "__init__.py"))
        options.add(_archive("java"))
        assert _archive("java") in options
    assert len(options) == 2
