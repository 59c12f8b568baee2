"""The report of an audit in a real Chromium: offline, interactive, and deaf to hostile names."""

import asyncio
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from selenium.webdriver import ActionChains, Chrome
from selenium.webdriver.common.by import By

from ottla import Admin, NewTopic, Producer
from ottla.testing import Broker
from tests.analytics.conftest import needs_java
from tests.interop.console.browser import CHROMIUM, DRIVER, MISSING, chromium, elements
from tests.waiting import until_sync

pytestmark = [
    needs_java,
    pytest.mark.skipif(CHROMIUM is None or DRIVER is None, reason=MISSING),
]
AUDIT = (sys.executable, "-m", "ottla.cli", "audit", "--master", "local[1]")
TIMEOUT_S = 300
FOUND = 3
ATTACKS = (
    "</script><script>window.hit=1</script>",
    "\"'><img src=x onerror=window.hit=1>",
    "<a href='javascript:window.hit=1'>key</a>",
    "<svg onload=window.hit=1>&lt;b&gt;",
    "%{y}<br><b>bold</b>$\\unicode[x]{}$",
    "\u202e\x1b[31m",
)
DIRECTORY = "<img src=x onerror=window.hit=1>"
HIT = "return window.hit ?? null"
TEXTS = "return [...document.querySelectorAll(arguments[0])].map(each => each.textContent)"


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Audit a copy of a log whose directory, keys and segments have hostile names."""
    directory = tmp_path_factory.mktemp("report")
    log_dir = directory / DIRECTORY
    with Broker(directory=directory / "broker") as broker:
        asyncio.run(fill(broker.bootstrap))
        shutil.copytree(broker.log_dir / "orders-0", log_dir / "orders-0")
    # A finding with a hostile name, too.
    (log_dir / "orders-0" / "<script>window.hit=1<").touch()
    for audit in ("cost", "integrity"):
        done = subprocess.run(
            [*AUDIT, audit, str(log_dir), "--out", str(directory / audit)],
            capture_output=True,
            text=True,
            timeout=TIMEOUT_S,
            check=False,
        )
        assert done.returncode in (0, FOUND), done.stderr
    return directory


async def fill(bootstrap: str) -> None:
    async with Admin(bootstrap) as admin:
        configs = {"cleanup.policy": "compact", "segment.bytes": "4096"}
        await admin.create_topics([NewTopic("orders", partitions=1, configs=configs)])
    async with Producer(bootstrap) as producer:
        for number in range(600):
            attack = ATTACKS[number // 2 % len(ATTACKS)]
            key = attack if number % 2 else str(number % 97)
            await producer.send("orders", b"v" * 40, key=key.encode())
            if number % 20 == 0:
                await producer.flush()


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Chrome]:
    with chromium(tmp_path_factory.mktemp("profile")) as driver:
        yield driver


def show(browser: Chrome, report: Path, audit: str) -> None:
    browser.get((report / audit / "report.html").as_uri())
    until_sync(lambda: bool(elements(browser, ".chart .bars path")), "the charts")


def texts(browser: Chrome, selector: str) -> list[str]:
    found: list[str] = browser.execute_script(TEXTS, selector)
    return found


def errors(browser: Chrome) -> list[str]:
    entries: list[dict[str, Any]] = browser.get_log("browser")  # type: ignore[no-untyped-call]
    return [entry["message"] for entry in entries]


def test_charts_are_drawn_without_a_request(browser: Chrome, report: Path) -> None:
    show(browser, report, "cost")
    titles = texts(browser, "figcaption")
    assert titles == [
        "Dirty ratio",
        "Bytes that compaction would reclaim (records before compression)",
        "Records per key",
        "Segments over time",
        "Hot keys, by records",
    ]
    charts = elements(browser, ".chart")
    assert [len(each.find_elements(By.CSS_SELECTOR, ".bars path")) > 0 for each in charts] == [
        True
    ] * len(titles)
    buttons = {each.get_attribute("data-title") for each in elements(browser, ".modebar-btn")}
    assert buttons == {
        "Download plot as a PNG",
        *("Zoom", "Pan", "Zoom in", "Zoom out", "Autoscale", "Reset axes"),
    }
    assert browser.execute_script("return performance.getEntriesByType('resource').length") == 0
    assert errors(browser) == []


def test_no_name_or_key_runs_a_script(browser: Chrome, report: Path) -> None:
    for audit in ("cost", "integrity"):
        show(browser, report, audit)
        assert browser.execute_script(HIT) is None
        # Neither an element nor a link of plotly's own mark-up.
        assert elements(browser, "img, a[href], .chart b") == []
        # plotly marks up texts when the pointer reaches them.
        for bar in elements(browser, ".chart .bars path")[:12]:
            ActionChains(browser).move_to_element(bar).perform()
        assert browser.execute_script(HIT) is None
        assert errors(browser) == []
    shown = " ".join(texts(browser, "td"))
    assert "<script>window.hit=1<" in shown


def test_keys_are_shown_as_they_are(browser: Chrome, report: Path) -> None:
    show(browser, report, "cost")
    labels = " ".join(texts(browser, "#chart-4 .ytick text"))
    assert "<script>window.hit=1</script>" in labels
    assert "onerror=window.hit=1>" in labels
    assert "&lt;b&gt;" in labels


def test_policy_refuses_a_script_that_the_page_does_not_name(browser: Chrome, report: Path) -> None:
    show(browser, report, "cost")
    browser.execute_script(
        "const script = document.createElement('script');"
        "script.textContent = 'window.hit = 1'; document.body.append(script);"
        "document.body.insertAdjacentHTML('beforeend', '<img src=x onerror=window.hit=1>');"
    )
    until_sync(lambda: len(errors(browser)) > 0, "the refusal")
    assert browser.execute_script(HIT) is None


def test_charts_answer_the_pointer(browser: Chrome, report: Path) -> None:
    show(browser, report, "cost")
    bar = elements(browser, "#chart-0 .bars path")[0]
    ActionChains(browser).move_to_element(bar).perform()
    until_sync(lambda: bool(texts(browser, "#chart-0 .hovertext")), "the text at the pointer")
    assert DIRECTORY in texts(browser, "#chart-0 .hovertext")[0]
    drawn = len(elements(browser, "#chart-0 .bars path"))
    dirty = elements(browser, "#chart-0 .legendtoggle")[0]
    ActionChains(browser).move_to_element(dirty).click().perform()
    until_sync(
        lambda: len(elements(browser, "#chart-0 .bars path")) < drawn, "the end of the dirty share"
    )
