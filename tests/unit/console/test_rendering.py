"""The templates: each name that a client chooses is escaped, in every page that shows it."""

import re
from collections.abc import Mapping
from dataclasses import replace

import pytest

from kafkawire.errors import ErrorCode
from kafkawire.ids import BrokerId, LeaderEpoch, Offset, TopicPartition
from kafkawire.records import TimestampType
from ottla.client.admin_model import ClusterDescription, ConfigEntry, LogDirectory, ReplicaLog
from ottla.client.client_config import Address
from ottla.client.errors import BrokerError
from ottla.client.record import ConsumerRecord
from ottla.console.changes.change import KINDS as CONFIG_KINDS
from ottla.console.changes.change import AlterConfig, CreateTopic, DeleteTopic
from ottla.console.files.verdict import parse_verdict
from ottla.console.observation.observation import Observation, Probe
from ottla.console.pages.live_pages import LIVE_PAGES
from ottla.console.records.found_record import MAX_SHOWN_HEADERS, found_record
from ottla.console.records.payload import MAX_PAGE_BYTES, Form
from ottla.console.view.rendering import Renderer, link
from ottla.console.web.record_routes import record_rows
from tests.unit.console.stand_ins import group, member, partition, ranges, topic

EVIL = "\"'><script>hit()</script><img src=x onerror=hit()>\u202e\x1b[0m{{7*7}}"
PLACE = TopicPartition(EVIL, 0)
SHARED = {"is_read_only": False, "csrf": "secret", "bootstrap": EVIL}
# Escaped text has no such beginning, so it would be an element of an attacker.
INJECTED = re.compile(r"<(?:script|img)\b")
TAG = re.compile(r"<[^>]*>")


@pytest.fixture
def hostile() -> Observation:
    """A cluster in which every name is hostile, such as one that only looks like Kafka."""
    observation = Observation()
    brokers = {BrokerId(1): Address(EVIL, 1)}
    described = ClusterDescription(
        cluster_id=EVIL, controller_id=BrokerId(1), brokers=brokers, racks={BrokerId(1): EVIL}
    )
    observation.on_metadata(described, {EVIL: topic(EVIL, partition(0, 1))})
    replica = ReplicaLog(topic_partition=PLACE, size_bytes=5, offset_lag=0, is_future=False)
    observation.on_log_dirs(
        1,
        [
            LogDirectory(
                broker_id=BrokerId(1),
                path=EVIL,
                total_bytes=10,
                usable_bytes=1,
                replicas=(replica,),
            )
        ],
    )
    for second in (1, 2):
        observation.on_offsets(second * 1_000, ranges((PLACE, 0, 10 * second)))
        observation.on_groups(
            second * 1_000, {EVIL: group(EVIL, {PLACE: 2}, member(PLACE, client=EVIL))}
        )
    observation.on_failure(Probe.GROUPS, EVIL)
    return observation


def render(template: str, values: Mapping[str, object]) -> str:
    state: dict[str, object] = {"cluster": None, "failures": {}, "now_ms": 0}
    return Renderer(SHARED).render(template, {**state, **values})


def is_safe(text: str) -> bool:
    assert "hit()" in text, "the page does not show the hostile text, so nothing was tried"
    shown = TAG.sub("", text)
    return INJECTED.search(text) is None and not {"\u202e", "\x1b"} & set(shown)


def test_a_failed_disk_is_seen_beside_its_live_broker(hostile: Observation) -> None:
    error = BrokerError(ErrorCode.KAFKA_STORAGE_ERROR, "log directory /data")
    hostile.on_log_dirs(2, [replace(hostile.log_dirs[0], replicas=(), error=error)])
    shown = [
        render(page.template, {"cluster": hostile.cluster, **page.values})
        for page in (LIVE_PAGES[path](hostile, {"id": "1"}) for path in ("/", "/broker"))
    ]
    assert "disk offline</span>" in shown[0]
    assert shown[1].count(">offline</span>") == 1


@pytest.mark.parametrize("path", LIVE_PAGES)
def test_live_pages_escape_every_name(path: str, hostile: Observation) -> None:
    page = LIVE_PAGES[path](hostile, {"name": EVIL, "id": "1", "filter": "hit"})
    state = {"cluster": hostile.cluster, "failures": hostile.failures}
    assert is_safe(render(page.template, {**page.values, **state}))


def test_frame_of_a_page_escapes_the_names_of_cluster_and_page(hostile: Observation) -> None:
    page = LIVE_PAGES["/topic"](hostile, {"name": EVIL})
    values = {"page": page, "stream": link("/live", name=EVIL), "done": "", **page.values}
    text = render("page.html", {**values, "cluster": hostile.cluster})
    body = text.replace('<script src="/static/theme.js">', "").replace(
        '<script type="module" src="/static/console.js">', ""
    )
    assert is_safe(body.replace('<img src="/static/icon.svg"', ""))


def test_rows_of_records_escape_keys_values_and_headers() -> None:
    data = EVIL.encode()
    record = ConsumerRecord(
        EVIL,
        0,
        Offset(0),
        0,
        data,
        data,
        ((EVIL, data), ("null", None)),
        TimestampType.CREATE_TIME,
        LeaderEpoch(0),
    )
    for form in Form:
        text = render("record_rows.html", {"rows": record_rows([found_record(record)], form)})
        assert is_safe(text)


def test_records_with_thousands_of_headers_fit_a_page() -> None:
    record = ConsumerRecord(
        "orders",
        0,
        Offset(0),
        0,
        None,
        b"value",
        (("n" * 100_000, b"\xff" * 100_000), *[("name", b"\xff" * 90)] * 9_999),
        TimestampType.CREATE_TIME,
        LeaderEpoch(0),
    )
    text = render(
        "record_rows.html", {"rows": record_rows([found_record(record)] * 200, Form.AUTO)}
    )
    assert f"10000 headers, the first {MAX_SHOWN_HEADERS} shown" in text
    assert len(text) < 10 * MAX_PAGE_BYTES


def test_configs_escape_keys_values_and_documentation() -> None:
    entry = ConfigEntry(
        name=EVIL,
        value=EVIL,
        source=1,
        is_default=False,
        is_read_only=False,
        is_sensitive=False,
        documentation=EVIL,
    )
    values = {"kind": "topic", "name": EVIL, "entries": [entry], "total": 1, "filter": EVIL}
    # The hidden field and the input hold the key and the value as they are, escaped.
    text = render("configs.html", {**values, "sources": {}})
    assert re.search(r"<(?:script|img)\b", text) is None


@pytest.mark.parametrize(
    "change",
    [
        CreateTopic(topic=EVIL, configs={EVIL: EVIL}),
        DeleteTopic(topic=EVIL),
        AlterConfig(kind=CONFIG_KINDS["topic"], name=EVIL, key=EVIL, value=EVIL),
    ],
)
def test_confirmations_escape_every_field(change: object) -> None:
    values = {"change": change, "fields": {EVIL: EVIL}, "is_retyped": True, "is_deletion": True}
    text = render("confirm.html", values)
    assert re.search(r"<(?:script|img)\b", text) is None
    assert "hit()" in text


def test_reports_escape_every_field() -> None:
    report = parse_verdict(EVIL, '{"audit": "hit()", "by_kind": {"<script>": 1}}', 0)
    assert "<script>" not in render("report.html", {"report": report})
    listed = {"folder": EVIL, "reports": [report], "problems": [EVIL]}
    assert is_safe(render("reports.html", listed))
