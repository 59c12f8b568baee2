"""Times of the console's pages in Chromium beside a large cluster.

`python -m tests.interop.console.large_cluster` creates 1,000 topics of ten partitions and 200
groups on two brokers, and prints for each page its size and the times until the browser has its
content: by the clock, and of the processor in the console. It takes minutes.
"""

import asyncio
import statistics
import sys
import tempfile
import time
import urllib.request
from functools import partial
from pathlib import Path
from typing import Final

from selenium.webdriver import Chrome

from ottla import Admin, NewTopic, Producer, TopicPartition
from ottla.testing import Cluster
from tests.interop.console.browser import chromium, elements
from tests.interop.console.console_process import running_console
from tests.waiting import until_sync

BROKERS: Final = 2
"""Each partition costs a broker two open files, and many systems allow a process 20,000."""
TOPICS: Final = 1_000
PARTITIONS: Final = 10
GROUPS: Final = 200
TOPICS_PER_REQUEST: Final = 50
ROUNDS: Final = 7
NS_PER_MS: Final = 1_000_000
MS_PER_S: Final = 1_000
PAGES: Final = {
    "/": "table",
    "/broker?id=1": "table",
    "/topics": "tbody tr",
    "/topics?sort=size&page=7": "tbody tr",
    "/topics?filter=topic-99": "tbody tr",
    "/topic?name=topic-7": "tbody tr",
    "/records?topic=topic-0": "tr.record",
    "/groups": "tbody tr",
    "/group?name=group-7": "tbody tr",
}


def main() -> None:
    """Measure and print."""
    with tempfile.TemporaryDirectory() as directory, Cluster(BROKERS) as cluster:
        began_s = time.monotonic()
        asyncio.run(_fill(cluster.bootstrap))
        _say(f"{TOPICS} topics, {GROUPS} groups: {time.monotonic() - began_s:.0f} s to create")
        with (
            running_console(cluster.bootstrap) as (url, pid),
            chromium(Path(directory)) as browser,
        ):
            began_s = time.monotonic()
            _wait_for_samples(browser, url)
            _say(f"all topics and groups shown after {time.monotonic() - began_s:.1f} s")
            for path, selector in PAGES.items():
                _measure(browser, url + path, selector, pid)
            _say_cost(pid)


async def _fill(bootstrap: str) -> None:
    async with Admin(bootstrap, request_timeout_ms=120_000) as admin:
        for start in range(0, TOPICS, TOPICS_PER_REQUEST):
            numbers = range(start, start + TOPICS_PER_REQUEST)
            await admin.create_topics([NewTopic(f"topic-{n}", PARTITIONS, 1) for n in numbers])
        for number in range(GROUPS):
            offsets = {TopicPartition(f"topic-{number}", each): 0 for each in range(PARTITIONS)}
            await admin.alter_group_offsets(f"group-{number}", offsets)
    async with Producer(bootstrap) as producer:
        for number in range(TOPICS):
            await producer.send(f"topic-{number % 100}", b"a record of %d" % number)


def _wait_for_samples(browser: Chrome, url: str) -> None:
    for path, name in (
        ("/topics?filter=topic-999", "topic-999"),
        ("/groups?filter=group-199", "group-199"),
    ):
        browser.get(url + path)
        until_sync(partial(_is_shown, browser, name), name)


def _is_shown(browser: Chrome, name: str) -> bool:
    return name in browser.page_source


def _measure(browser: Chrome, url: str, selector: str, pid: int) -> None:
    """Print the median of the times until a page has the elements of `selector`."""
    times_ms, processor_ms = [], []
    for _ in range(ROUNDS):
        used_ms, began_s = _processor_ms(pid), time.monotonic()
        browser.get(url)
        assert elements(browser, selector), f"{url} lacks {selector}"
        times_ms.append((time.monotonic() - began_s) * MS_PER_S)
        processor_ms.append(_processor_ms(pid) - used_ms)
    with urllib.request.urlopen(url) as response:
        size_bytes = len(response.read())
    _say(
        f"{url.partition('//')[2].partition('/')[2] or 'cluster'}: {size_bytes / 1000:.0f} kB, "
        f"{statistics.median(times_ms):.0f} ms (longest {max(times_ms):.0f}), "
        f"console {statistics.median(processor_ms):.0f} ms (least {min(processor_ms):.0f})"
    )


def _say_cost(pid: int) -> None:
    used_ms, began_s = _processor_ms(pid), time.monotonic()
    # The console works while this program waits.
    time.sleep(20)
    share = (_processor_ms(pid) - used_ms) / MS_PER_S / (time.monotonic() - began_s)
    _say(f"with one page open: {share:.0%} of a core for samples and updates")


def _processor_ms(pid: int) -> float:
    threads = Path(f"/proc/{pid}/task").glob("*/schedstat")
    return sum(int(each.read_text().split()[0]) for each in threads) / NS_PER_MS


def _say(line: str) -> None:
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main()
