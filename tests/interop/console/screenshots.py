"""Makes the screenshots of docs/console.md: `python -m tests.interop.console.screenshots`.

It needs Chromium with its driver, and pngquant for small files.
"""

import asyncio
import subprocess
import tempfile
import threading
import time
from pathlib import Path
from typing import Final

from selenium.webdriver import Chrome

from tests.harness.cluster import ClusterProcesses
from tests.interop.console.browser import chromium, elements
from tests.interop.console.console_process import console_process, fill, load, reports_in
from tests.waiting import until_sync

FOLDER: Final = Path(__file__).resolve().parents[3] / "docs" / "images"
RECORDS: Final = 6_000
LOAD_S: Final = 40.0
COLOURS: Final = 64
PAGES: Final = {
    "cluster": ("/", "table"),
    "topic": ("/topic?name=orders", "td"),
    "records": ("/records?topic=orders&key=c-42&limit=20", "tr.record"),
    "segments": ("/segments?topic=orders&partition=3", "svg.timeline"),
    "group": ("/group?name=billing", "svg.chart path.line"),
}
DARK: Final = ("group",)


def main() -> None:
    """Start a cluster under load, and write a screenshot of each page."""
    with tempfile.TemporaryDirectory() as temporary:
        directory = Path(temporary)
        reports = reports_in(directory / "reports")
        with ClusterProcesses(directory) as cluster:
            now_ms = int(time.time() * 1_000)
            asyncio.run(fill(cluster.bootstrap, record_count=RECORDS, now_ms=now_ms))
            log_dir = ("--log-dir", str(cluster.log_directory(1)))
            options = ("--reports", str(reports), *log_dir)
            with (
                console_process(cluster.bootstrap, *options) as url,
                chromium(directory / "profile") as browser,
            ):
                browser.get(url)
                stop = asyncio.Event()
                loading = threading.Thread(target=_load, args=(cluster.bootstrap, stop))
                loading.start()
                try:
                    # The lag over time needs a while to have a shape.
                    end_s = time.monotonic() + LOAD_S
                    until_sync(lambda: time.monotonic() > end_s, "the load")
                    for name, (path, selector) in PAGES.items():
                        _take(browser, url + path, selector, name)
                finally:
                    stop.set()
                    loading.join()


def _load(bootstrap: str, stop: asyncio.Event) -> None:
    asyncio.run(load(bootstrap, stop, ["orders", "clickstream", "payments"]))


def _take(browser: Chrome, address: str, selector: str, name: str) -> None:
    theme = "dark" if name in DARK else "light"
    browser.get(address)
    browser.execute_script("localStorage.setItem('theme', arguments[0])", theme)
    browser.refresh()
    until_sync(lambda: bool(elements(browser, selector)), selector)
    if name == "records":
        browser.execute_script("document.querySelector('details').open = true")
    file = FOLDER / f"console-{name}.png"
    browser.save_screenshot(str(file))
    subprocess.run(
        ["pngquant", "--force", "--output", str(file), str(COLOURS), str(file)], check=True
    )


if __name__ == "__main__":
    main()
