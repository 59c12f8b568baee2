"""A cluster, its console and a Chromium for the tests of this folder."""

import asyncio
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest
from selenium.webdriver import Chrome

from tests.harness.cluster import ClusterProcesses
from tests.interop.console.browser import CHROMIUM, DRIVER, MISSING, chromium
from tests.interop.console.console_process import console_process, fill, reports_in


@dataclass
class Shop:
    """A running cluster with the records of a shop, and the address of its console."""

    bootstrap: str
    url: str


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    if CHROMIUM is None or DRIVER is None:
        for item in items:
            if item.path.parent == Path(__file__).parent:
                item.add_marker(pytest.mark.skip(reason=MISSING))


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ClusterProcesses]:
    with ClusterProcesses(tmp_path_factory.mktemp("cluster")) as cluster:
        yield cluster


@pytest.fixture(scope="module")
def shop(cluster: ClusterProcesses, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shop]:
    log_dirs = [cluster.log_directory(number) for number in cluster.numbers]
    with open_shop(cluster.bootstrap, tmp_path_factory.mktemp("shop"), log_dirs) as shop:
        yield shop


@contextmanager
def open_shop(bootstrap: str, directory: Path, log_dirs: Sequence[Path]) -> Iterator[Shop]:
    """Fill a cluster, and run a console beside it."""
    reports = reports_in(directory / "reports")
    asyncio.run(fill(bootstrap, record_count=2_000, now_ms=int(time.time() * 1_000)))
    words = [word for log_dir in log_dirs for word in ("--log-dir", str(log_dir))]
    with console_process(bootstrap, "--reports", str(reports), *words) as url:
        yield Shop(bootstrap, url)


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Chrome]:
    with chromium(tmp_path_factory.mktemp("profile")) as driver:
        yield driver
