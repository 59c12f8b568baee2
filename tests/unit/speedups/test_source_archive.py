"""A source archive contains all sources of compiled modules."""

from pathlib import Path

import pytest
from setuptools.command.egg_info import FileList  # type: ignore[import-untyped]

ROOT = Path(__file__).resolve().parents[3]


def test_source_archive_contains_all_compiled_sources(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    archived = FileList()
    for line in Path("MANIFEST.in").read_text(encoding="utf-8").splitlines():
        if line and not line.startswith("#"):
            archived.process_template_line(line)
    sources = {str(path) for kind in ("pyx", "pxd") for path in Path("kafkawire").glob(f"*.{kind}")}
    assert sources
    assert sources <= set(archived.files)
