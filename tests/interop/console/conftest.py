"""A cluster, its console and a Chromium for the tests of this folder."""

import asyncio
import time
from collections.abc import Iterator
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

    cluster: ClusterProcesses
    url: str


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    if CHROMIUM is None or DRIVER is None:
        for item in items:
            if item.path.parent == Path(__file__).parent:
                item.add_marker(pytest.mark.skip(reason=MISSING))


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shop]:
    directory = tmp_path_factory.mktemp("shop")
    reports = reports_in(directory / "reports")
    with ClusterProcesses(directory) as cluster:
        asyncio.run(fill(cluster.bootstrap, record_count=2_000, now_ms=int(time.time() * 1_000)))
        log_dirs = [
            word
            for number in cluster.numbers
            for word in ("--log-dir", str(cluster.log_directory(number)))
        ]
        with console_process(cluster.bootstrap, "--reports", str(reports), *log_dirs) as url:
            yield Shop(cluster, url)


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Chrome]:
    with chromium(tmp_path_factory.mktemp("profile")) as driver:
        yield driver
