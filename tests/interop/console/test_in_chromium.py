"""The console in a real Chromium: every page, a failover, hostile names, and the keyboard."""

import asyncio
from urllib.parse import quote

import pytest
from selenium.webdriver import Chrome, Keys
from selenium.webdriver.common.by import By

from ottla import Admin, Consumer, NewTopic, Producer, TopicPartition
from tests.harness.cluster import ClusterProcesses
from tests.interop.console.browser import elements, texts
from tests.interop.console.conftest import Shop
from tests.waiting import until_sync

PAGES = {
    "/": "Cluster",
    "/broker?id=1": "Broker 1",
    "/configs?kind=broker&name=1": "Broker 1",
    "/topics": "Topics",
    "/topic?name=orders": "orders",
    "/records?topic=orders": "orders",
    "/records?topic=orders&mode=tail": "orders",
    "/segments?topic=orders&partition=0": "orders",
    "/configs?kind=topic&name=orders": "orders",
    "/new-topic": "New topic",
    "/groups": "Groups",
    "/group?name=billing": "billing",
    "/reports": "Audits",
    "/report?name=replicas-weekly": "replicas-weekly",
}
ATTACKS = (
    "<script>window.hit=1</script>",
    "\"'><img src=x onerror=window.hit=1>",
    "</title></table><svg onload=window.hit=1>",
    "{{7*7}}${7*7}",
    "\u202e\x1b[31m<b>",
)
HIT = "return window.hit ?? null"


def problems(browser: Chrome) -> list[str]:
    """Return the errors that the browser has logged since the last call."""
    entries = browser.get_log("browser")  # type: ignore[no-untyped-call]
    return [entry["message"] for entry in entries]


def shows(browser: Chrome, selector: str, text: str) -> None:
    """Wait until an element that matches has this text."""
    until_sync(lambda: any(text in each for each in texts_now(browser, selector)), text)


def texts_now(browser: Chrome, selector: str) -> list[str]:
    """Return the texts at one moment: the page may replace elements at any time."""
    script = "return [...document.querySelectorAll(arguments[0])].map(each => each.textContent)"
    found: list[str] = browser.execute_script(script, selector)
    return found


def click(browser: Chrome, selector: str) -> None:
    """Click the first element that matches, in one step: a live page may replace it any time."""
    browser.execute_script("document.querySelector(arguments[0]).click()", selector)


@pytest.mark.parametrize(("path", "title"), PAGES.items())
def test_each_page_loads_without_an_error(
    browser: Chrome, shop: Shop, path: str, title: str
) -> None:
    browser.get(shop.url + path)
    shows(browser, "h1", title)
    assert problems(browser) == []


def test_lag_of_a_group_is_drawn(browser: Chrome, shop: Shop) -> None:
    browser.get(shop.url + "/group?name=billing")
    until_sync(lambda: bool(elements(browser, "svg.chart path.line")), "the chart")


def test_segments_are_bars_on_a_line(browser: Chrome, shop: Shop) -> None:
    browser.get(shop.url + "/segments?topic=orders&partition=0")
    assert len(elements(browser, "svg.timeline")) == 3
    assert len(elements(browser, "svg.timeline rect")) > 3
    assert len(elements(browser, "svg.timeline rect.active")) == 3


def test_records_are_found_and_opened(browser: Chrome, shop: Shop) -> None:
    browser.get(shop.url + "/records?topic=orders&key=c-42&limit=20")
    assert set(texts(browser, "td.key")) == {"c-42"}
    elements(browser, "tr.record summary")[0].click()
    assert '"customer": "c-42"' in texts(browser, "tr.record pre")[0]


def test_live_tail_shows_new_records_and_pauses(browser: Chrome, shop: Shop) -> None:
    browser.get(shop.url + "/records?topic=clickstream&mode=tail&form=text")
    shows(browser, "#tail-state", "Following")

    async def write() -> None:
        async with Producer(shop.bootstrap) as producer:
            while not texts_now(browser, "tr.record"):
                await producer.send("clickstream", b"a click")
                await asyncio.sleep(0.05)

    asyncio.run(write())
    shows(browser, "tr.record .value", "a click")
    elements(browser, "#tail-pause")[0].click()
    shows(browser, "#tail-state", "Paused")


def test_topic_is_created_and_deleted_by_forms(browser: Chrome, shop: Shop) -> None:
    browser.get(shop.url + "/new-topic")
    elements(browser, "#topic")[0].send_keys("by-hand")
    elements(browser, "#partitions")[0].send_keys("2")
    elements(browser, "#configs")[0].send_keys("retention.ms=60000")
    elements(browser, "form.card button")[0].click()
    shows(browser, ".card li", "Topic by-hand gets 2 partitions")
    click(browser, "#confirm")
    shows(browser, ".note.good", "The topic was created.")
    click(browser, "#delete-topic")
    shows(browser, "label", "to confirm")
    elements(browser, "#typed")[0].send_keys("by-hand")
    elements(browser, "#confirm")[0].click()
    shows(browser, ".note.good", "The topic was deleted.")
    assert problems(browser) == []


def test_keyboard_reaches_every_list(browser: Chrome, shop: Shop) -> None:
    def press(*keys: str) -> None:
        for key in keys:
            browser.switch_to.active_element.send_keys(key)

    browser.get(shop.url + "/")
    browser.find_element(By.TAG_NAME, "body").send_keys("g")
    press("t")
    shows(browser, "h1", "Topics")
    browser.find_element(By.TAG_NAME, "body").send_keys("/")
    press("pay", Keys.ENTER)
    until_sync(lambda: texts_now(browser, "tbody td:first-child a") == ["payments"], "the filter")
    browser.find_element(By.TAG_NAME, "body").send_keys("j")
    until_sync(lambda: bool(elements(browser, "tr.at")), "the chosen row")
    press(Keys.ENTER)
    shows(browser, "h1", "payments")
    browser.find_element(By.TAG_NAME, "body").send_keys("?")
    until_sync(lambda: bool(elements(browser, "dialog[open]")), "the help")
    press(Keys.ESCAPE)
    until_sync(lambda: not elements(browser, "dialog[open]"), "the end of the help")
    theme = "return document.documentElement.dataset.theme ?? 'auto'"
    browser.find_element(By.TAG_NAME, "body").send_keys("t")
    assert browser.execute_script(theme) == "light"
    browser.find_element(By.TAG_NAME, "body").send_keys("t")
    assert browser.execute_script(theme) == "dark"
    browser.refresh()
    assert browser.execute_script(theme) == "dark"
    browser.find_element(By.TAG_NAME, "body").send_keys("t")
    assert browser.execute_script(theme) == "auto"


def test_first_tab_skips_to_the_content(browser: Chrome, shop: Shop) -> None:
    browser.get(shop.url + "/topics")
    browser.find_element(By.TAG_NAME, "body").send_keys(Keys.TAB)
    assert browser.switch_to.active_element.get_attribute("href") == f"{shop.url}/topics#content"


def test_no_name_key_value_or_header_runs_a_script(browser: Chrome, shop: Shop) -> None:
    attack = "".join(ATTACKS)

    async def write() -> None:
        bootstrap = shop.bootstrap
        async with Admin(bootstrap) as admin:
            await admin.create_topics([NewTopic("attacked", partitions=1)])
        async with Producer(bootstrap, client_id=attack) as producer:
            for each in ATTACKS:
                data = each.encode()
                await producer.send("attacked", data, key=data, headers=[(each, data)])
                await producer.send("attacked", b'{"a": "%s"}' % data.replace(b'"', b'\\"'))

    async def visit() -> None:
        async with Consumer(
            shop.bootstrap,
            group_id=attack,
            client_id=attack,
            auto_offset_reset="earliest",
        ) as member:
            member.subscribe(["attacked"])
            assert await member.fetch_batch(1)
            await member.commit({TopicPartition("attacked", 0): 1})
            # The group has a member meanwhile.
            await asyncio.to_thread(look)

    def look() -> None:
        browser.get(shop.url + "/groups")
        shows(browser, "tbody td", "window.hit")
        for path in (
            f"/group?name={quote(attack)}",
            "/topic?name=attacked",
            *(f"/records?topic=attacked&form={form}" for form in ("auto", "json", "text", "hex")),
            f"/records?topic=attacked&key={quote(attack)}&at={quote(attack)}",
            "/records?topic=attacked&from=offset&at=%3Cscript%3Ewindow.hit%3D1%3C/script%3E",
            f"/topics?filter={quote(attack)}&sort={quote(attack)}&internal={quote(attack)}",
            f"/topic?name={quote(attack)}",
            f"/configs?kind=topic&name=attacked&filter={quote(attack)}",
            f"/configs?kind={quote(attack)}&name={quote(attack)}",
            f"/report?name={quote(attack)}",
            "/" + quote(attack),
        ):
            browser.get(shop.url + path)
            for each in elements(browser, "details"):
                each.click()
            assert browser.execute_script(HIT) is None, path
            assert "49" not in browser.title
            refused = [each for each in problems(browser) if "status of" not in each]
            assert refused == [], path
        shows_member(browser, shop, attack)

    asyncio.run(write())
    asyncio.run(visit())


def shows_member(browser: Chrome, shop: Shop, attack: str) -> None:
    browser.get(f"{shop.url}/group?name={quote(attack)}")
    shows(browser, "section td", "<script>window.hit=1</script>")
    assert browser.execute_script(HIT) is None
    assert elements(browser, "main img, main script") == []


def test_page_of_another_site_cannot_send_changes(browser: Chrome, shop: Shop) -> None:
    form = (
        f"data:text/html,<form method=post action={shop.url}/change>"
        "<input name=action value=delete><input name=topic value=orders>"
        "<input name=typed value=orders><input name=confirmed value=yes></form>"
    )
    browser.get(form)
    browser.execute_script("document.forms[0].submit()")
    shows(browser, "body", "Only a page of the console can send changes.")


# The last test, since it leaves the cluster without a broker.
def test_failover_is_shown_without_a_reload(
    browser: Chrome, shop: Shop, cluster: ClusterProcesses
) -> None:
    browser.get(shop.url + "/topic?name=orders")
    shows(browser, "h1", "orders")
    browser.execute_script("window.isSamePage = true")
    leaders = "[data-k$='-leader']"
    assert {each.strip() for each in texts_now(browser, leaders)} == {"1", "2", "3"}
    cluster.kill(3)
    until_sync(
        lambda: {each.strip() for each in texts_now(browser, leaders)} == {"1", "2"},
        "the new leaders",
    )
    shows(browser, ".tiles", "under-replicated")
    assert browser.execute_script("return window.isSamePage") is True
    browser.get(shop.url + "/")
    shows(browser, "[data-k='broker-3-state']", "offline")
    browser.execute_script("window.isSamePage = true")
    cluster.start_brokers(3)
    shows(browser, "[data-k='broker-3-state']", "online")
    assert browser.execute_script("return window.isSamePage") is True
