"""The console over HTTP, with a real broker and without a browser."""

import asyncio
import json
import re
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
import pytest_asyncio

from ottla import Admin, Consumer, NewTopic, Producer
from ottla.console.access.address import ListenAddress
from ottla.console.observation.collector import Collector
from ottla.console.web.change_routes import MAX_FORM_BYTES
from ottla.console.web.serving import listen_on, url_of
from tests.conftest import BrokerProcess
from tests.integration.console.browserless import TIMEOUT_S, ConsoleServer, console_of

EVIL = "<script>alert(1)</script>"
ESCAPED = "&lt;script&gt;alert(1)&lt;/script&gt;"
TOKEN = "token-of-the-console"


@pytest.fixture
def bootstrap(shared_broker: BrokerProcess) -> str:
    return f"127.0.0.1:{shared_broker.port}"


@pytest_asyncio.fixture
async def console(
    bootstrap: str, shared_broker: BrokerProcess, tmp_path: Path
) -> AsyncIterator[ConsoleServer]:
    folder = tmp_path / "reports" / "nightly"
    folder.mkdir(parents=True)
    verdict = {"audit": EVIL, "clean": False, "errors": 2, "by_kind": {"record.lost": 2}}
    (folder / "verdict.json").write_text(json.dumps(verdict))
    (tmp_path / "reports" / "verdict.json").write_text("no JSON")
    async with console_of(
        bootstrap, log_dirs=(shared_broker.data_dir,), reports=tmp_path / "reports"
    ) as running:
        yield running


async def shown(console: ConsoleServer, path: str, text: str) -> str:
    """Wait until a live page shows `text`; return its content."""
    async with console.events("/live" + path) as events:
        async for name, content in events:
            if name == "content" and text in content:
                return str(content)
    raise AssertionError(f"the stream of {path} ended without {text}")


async def csrf_of(console: ConsoleServer) -> str:
    form = await console.get("/new-topic")
    found = re.search(r'name="csrf" value="([^"]+)"', form.text)
    assert found is not None
    return found[1]


async def fill(bootstrap: str, topic: str) -> None:
    """Write three records with hostile names and bytes, and commit the first one."""
    async with Admin(bootstrap) as admin:
        await admin.create_topics([NewTopic(topic, partitions=2)])
    async with Producer(bootstrap) as producer:
        for number in range(3):
            await producer.send(
                topic,
                json.dumps({"number": number, "text": EVIL}).encode(),
                key=EVIL.encode() + bytes([48 + number]),
                partition=1,
                headers=[(EVIL, EVIL.encode())],
            )
    async with Consumer(bootstrap, group_id=f"{topic}-{EVIL}", auto_offset_reset="earliest") as one:
        one.subscribe([topic])
        assert await one.fetch_batch(1)


async def test_pages_show_topics_groups_records_segments_and_configs(
    console: ConsoleServer, bootstrap: str
) -> None:
    await fill(bootstrap, "orders")
    assert "orders" in await shown(console, "/topics", "orders")
    assert "controller" in await shown(console, "/", "online")
    groups = await shown(console, "/groups", ESCAPED)
    assert EVIL not in groups
    group = await shown(console, f"/group?name=orders-{EVIL}", ">2<")
    assert EVIL not in group
    assert "in sync" in await shown(console, "/topic?name=orders", ">3<")

    records = await console.get("/records?topic=orders")
    assert records.text.count('<tr class="record">') == 3
    assert "&#34;number&#34;: 2" in records.text
    for query in ("key=%3E1", "from=offset&partition=1&at=1&limit=20&value=number%22:%201"):
        found = await console.get(f"/records?topic=orders&{query}")
        assert found.text.count('<tr class="record">') == 1
    as_hex = await console.get("/records?topic=orders&form=hex&from=beginning")
    assert "00000000  7b 22" in as_hex.text

    segments = await console.get("/segments?topic=orders&partition=1")
    assert "active" in segments.text
    configs = await console.get("/configs?kind=topic&name=orders&filter=retention")
    assert "retention.ms" in configs.text
    assert "segment.bytes" not in configs.text
    for page in (records, as_hex, segments, configs):
        assert page.status == 200
        assert EVIL not in page.text


async def test_live_tail_sends_new_records(console: ConsoleServer, bootstrap: str) -> None:
    await fill(bootstrap, "tailed")
    await shown(console, "/topics", "tailed")
    async with console.events("/tail?topic=tailed&value=fresh") as events:
        assert await anext(events) == ("begun", "")
        async with Producer(bootstrap) as producer:
            # The end of the log is looked up after the event, so records have to follow each other.
            async for name, data in events_while_writing(producer, events):
                assert name == "records"
                if data["matched"]:
                    assert "fresh" in data["rows"]
                    assert EVIL not in data["rows"]
                    return
    raise AssertionError("the tail ended")


async def events_while_writing(
    producer: Producer, events: AsyncIterator[tuple[str, object]]
) -> AsyncIterator[tuple[str, dict[str, str]]]:
    async def write() -> None:
        while True:
            await producer.send("tailed", b"old")
            await producer.send("tailed", f"fresh {EVIL}".encode())

    writing = asyncio.create_task(write())
    try:
        async for name, data in events:
            assert isinstance(data, dict)
            yield name, data
    finally:
        writing.cancel()


async def test_topic_is_created_altered_and_deleted_after_confirmation(
    console: ConsoleServer, bootstrap: str
) -> None:
    await shown(console, "/", "online")
    fields = {"csrf": await csrf_of(console), "topic": "made"}
    creation = {**fields, "action": "create", "partitions": "2", "configs": "retention.ms=60000"}
    asked = await console.post("/change", creation)
    assert (asked.status, "gets 2 partitions" in asked.text) == (200, True)
    made = await console.post("/change", {**creation, "confirmed": "yes"})
    assert (made.status, made.headers["location"]) == (303, "/topic?name=made&done=created")
    again = await console.post("/change", {**creation, "confirmed": "yes"})
    assert again.status == 422
    assert "TOPIC_ALREADY_EXISTS" in again.text

    altered = {
        "action": "set",
        "kind": "topic",
        "name": "made",
        "key": "retention.ms",
        "csrf": fields["csrf"],
        "value": "70000",
        "confirmed": "yes",
    }
    assert (await console.post("/change", altered)).status == 303
    more = {**fields, "action": "partitions", "partitions": "3", "confirmed": "yes"}
    assert (await console.post("/change", more)).status == 303
    async with Admin(bootstrap) as admin:
        assert len((await admin.describe_topics(["made"]))["made"].partitions) == 3

    deletion = {**fields, "action": "delete", "confirmed": "yes"}
    retyped = await console.post("/change", {**deletion, "typed": "other"})
    assert (retyped.status, "does not match" in retyped.text) == (200, True)
    deleted = await console.post("/change", {**deletion, "typed": "made"})
    assert deleted.headers["location"] == "/topics?done=deleted"
    async with Admin(bootstrap) as admin:
        assert "made" not in await admin.list_topics()


async def test_the_first_change_waits_for_the_connection(
    bootstrap: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    connect = Collector._connected

    async def connected_late(collector: Collector) -> Admin:
        await confirmed.wait()
        return await connect(collector)

    confirmed = asyncio.Event()
    monkeypatch.setattr(Collector, "_connected", connected_late)
    monkeypatch.setattr("ottla.console.web.console.START_TIMEOUT_S", TIMEOUT_S)
    async with console_of(bootstrap) as console:
        fields = {"csrf": await csrf_of(console), "topic": "early", "action": "create"}
        answer = asyncio.create_task(console.post("/change", {**fields, "confirmed": "yes"}))
        await csrf_of(console)
        assert not answer.done()
        confirmed.set()
        assert (await answer).status == 303


async def test_audits_are_listed_and_shown(console: ConsoleServer) -> None:
    listed = await console.get("/reports")
    assert "nightly" in listed.text
    assert "is not JSON" in listed.text
    report = await console.get("/report?name=nightly")
    assert ESCAPED in report.text
    assert "record.lost" in report.text
    assert (await console.get("/report?name=../nightly")).status == 404


async def test_a_folder_of_audits_that_is_gone_is_one_sentence(
    console: ConsoleServer, tmp_path: Path
) -> None:
    (tmp_path / "reports").rename(tmp_path / "gone")
    assert "reports cannot be read: No such file" in (await console.get("/reports")).text
    report = await console.get("/report?name=nightly")
    assert (report.status, "reports cannot be read: No such file" in report.text) == (404, True)


async def test_changes_need_the_origin_and_the_secret_of_the_form(console: ConsoleServer) -> None:
    csrf = await csrf_of(console)
    fields = {"csrf": csrf, "action": "create", "topic": "forged", "confirmed": "yes"}
    foreign = await console.post("/change", fields, Origin="http://evil.example")
    assert (foreign.status, "Only a page of the console" in foreign.text) == (403, True)
    assert (await console.post("/change", fields, Origin="null")).status == 403
    assert (await console.post("/change", {**fields, "csrf": "guess"})).status == 403
    for size in (MAX_FORM_BYTES, 8 * 1024 * 1024):
        large = await console.post("/change", {**fields, "configs": "x" * size})
        assert (large.status, "more than 64 KiB" in large.text) == (413, True)
    many = await console.post("/change", {str(number): "" for number in range(60)})
    assert (many.status, "at most 50 fields" in many.text) == (400, True)
    assert (await console.get("/change")).status == 405


async def test_other_names_of_the_address_are_refused(console: ConsoleServer) -> None:
    refused = await console.get("/", Host="evil.example")
    assert (refused.status, "does not answer under this name" in refused.text) == (421, True)
    assert (await console.get("/", Host=f"localhost:{console.port}")).status == 200


async def test_every_response_forbids_scripts_inside_it(console: ConsoleServer) -> None:
    for path in ("/", "/absent", "/static/console.js", "/records?topic=absent"):
        headers = (await console.get(path)).headers
        assert "script-src 'self';" in headers["content-security-policy"]
        assert headers["x-content-type-options"] == "nosniff"
        assert headers["cache-control"] == "no-store"


async def test_things_that_do_not_exist_are_not_found(console: ConsoleServer) -> None:
    await shown(console, "/", "online")
    paths = ("/topic?name=" + EVIL, "/group?name=x", "/broker?id=77", "/configs?kind=x", "/x")
    for path in (*paths, "/configs?kind=broker&name=77", "/configs?kind=broker&name=x"):
        missing = await console.get(path.replace("<", "%3C").replace(">", "%3E"))
        assert missing.status == 404
        assert EVIL not in missing.text
    async with console.events("/live/topic?name=absent") as events:
        assert await anext(events) == ("missing", "There is no topic absent.")


async def test_live_page_of_a_deleted_topic_returns_with_the_topic(
    console: ConsoleServer, bootstrap: str
) -> None:
    async with Admin(bootstrap) as admin:
        await admin.create_topics([NewTopic("phoenix", partitions=1)])
        await shown(console, "/topics", "phoenix")
        async with console.events("/live/topic?name=phoenix") as events:
            assert (await anext(events))[0] == "content"
            await admin.delete_topics(["phoenix"])
            kinds = [name async for name, _ in until_kind(events, "missing")]
            assert kinds.count("missing") == 1
            await admin.create_topics([NewTopic("phoenix", partitions=1)])
            assert [name async for name, _ in until_kind(events, "content")] == ["content"]


async def until_kind(
    events: AsyncIterator[tuple[str, Any]], kind: str
) -> AsyncIterator[tuple[str, Any]]:
    """Yield events up to the first of this kind."""
    async with asyncio.timeout(30):
        async for each in events:
            yield each
            if each[0] == kind:
                return


async def test_invalid_searches_have_one_sentence(console: ConsoleServer, bootstrap: str) -> None:
    async with Admin(bootstrap) as admin:
        await admin.create_topics([NewTopic("searched")])
    await shown(console, "/topics", "searched")
    for query, text in (
        ("from=offset&at=x", "an offset is a number from 0"),
        ("partition=9", "has no partition 9"),
    ):
        page = await console.get(f"/records?topic=searched&{query}")
        assert (page.status, text in page.text) == (200, True)


async def test_read_only_console_has_no_forms(bootstrap: str) -> None:
    async with console_of(bootstrap, is_read_only=True) as console:
        page = await console.get("/topics")
        assert "New topic" not in page.text
        assert (await console.get("/new-topic")).status == 404
        assert (await console.post("/change", {"action": "create"})).status == 404


async def test_token_is_exchanged_for_a_cookie(bootstrap: str) -> None:
    async with console_of(bootstrap, token=TOKEN) as console:
        assert (await console.get("/")).status == 401
        assert (await console.get("/?token=wrong")).status == 401
        assert (await console.get("/static/console.css")).status == 401
        entered = await console.get(f"/?token={TOKEN}")
        assert (entered.status, entered.headers["location"]) == (303, "/")
        cookie = entered.headers["set-cookie"]
        assert "HttpOnly" in cookie
        assert "SameSite=strict" in cookie
        assert TOKEN not in cookie
        assert (await console.get("/", Cookie=cookie.partition(";")[0])).status == 200
        assert (await console.get("/", Cookie=f"ottla_console_{console.port}=x")).status == 401
        assert (
            await console.get("/", Cookie=cookie.replace(f"_{console.port}", "_1"))
        ).status == 401
        # Of other programs on this host: a browser sends them to each port.
        for other in ('a={"x":1}', "a=dark mode", "path=/x", "a,b=1", 'a="', "=a", "a"):
            both = f"{other}; {cookie.partition(';')[0]}"
            assert (other, (await console.get("/", Cookie=both)).status) == (other, 200)


@pytest.mark.parametrize(
    "token", ["s3cret+base64/with==", "s3cret & # % größe ü"], ids=["base64", "any text"]
)
async def test_printed_address_holds_any_token(token: str) -> None:
    listening = listen_on(ListenAddress("127.0.0.1", 0))
    with listening:
        address = urlsplit(url_of(listening, token))
    async with console_of("127.0.0.1:1", token=token) as console:
        entered = await console.get(f"{address.path}?{address.query}")
        assert (entered.status, entered.headers["location"]) == (303, "/")


async def test_console_without_a_cluster_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ottla.console.web.console.START_TIMEOUT_S", TIMEOUT_S)
    async with console_of("127.0.0.1:1") as console:
        page = await console.get("/")
        assert (page.status, "No new metadata." in page.text) == (200, True)
        failed = await console.get("/configs?kind=broker&name=1")
        assert (failed.status, "no broker could be reached yet" in failed.text) == (502, True)
