"""The format of log output: `broker.log_setup`."""

import io
import json
import logging
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest
import structlog

from broker.config.config_change import ConfigChange, ConfigOperation
from broker.log_setup import set_up_logging
from monitoring.log_limits import MAX_LINES_PER_HOST


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.fixture(autouse=True)
def restored() -> Iterator[None]:
    yield
    structlog.reset_defaults()


def test_programs_get_json_lines_with_time_and_level() -> None:
    stream = io.StringIO()
    set_up_logging("info", stream)
    log = structlog.get_logger("test")
    log.info("segment.rolled", base_offset=7)
    try:
        raise ValueError("why")
    except ValueError:
        log.exception("task.failed")
    rolled, failed = map(json.loads, stream.getvalue().splitlines())
    assert (rolled["event"], rolled["level"], rolled["base_offset"]) == (
        "segment.rolled",
        "info",
        7,
    )
    assert rolled["timestamp"].endswith("Z")
    assert "ValueError: why" in failed["exception"]


def test_people_get_a_console() -> None:
    stream = Terminal()
    set_up_logging("info", stream)
    structlog.get_logger("test").info("segment.rolled", base_offset=7)
    assert "segment.rolled" in stream.getvalue()
    assert not stream.getvalue().startswith("{")


def test_tracebacks_on_a_terminal_show_no_values() -> None:
    stream = Terminal()
    set_up_logging("info", stream)
    log = structlog.get_logger("test")

    def log_in(password: str) -> None:
        raise ValueError(f"refused after {len(password)} characters")

    try:
        log_in("planted-" + "s3cret")
    except ValueError:
        log.exception("task.failed")
    assert "ValueError: refused after 14 characters" in stream.getvalue()
    assert "planted-s3cret" not in stream.getvalue()


def test_control_characters_in_client_names_are_escaped() -> None:
    stream = Terminal()
    set_up_logging("info", stream)
    structlog.get_logger("test").info("topic.rejected", topic="x\x1b[2Jy\x07\u202e")
    assert r"x\x1b[2Jy\x07\u202e" in stream.getvalue()
    assert "[2Jy\x07" not in stream.getvalue()


@pytest.mark.parametrize(("level", "count"), [("debug", 3), ("info", 2), ("warning", 1)])
def test_events_below_the_level_are_not_logged(level: str, count: int) -> None:
    stream = io.StringIO()
    set_up_logging(level, stream)
    log = structlog.get_logger("test")
    log.debug("a.b")
    log.info("a.b")
    log.warning("a.b")
    assert len(stream.getvalue().splitlines()) == count


def test_a_logger_knows_its_level() -> None:
    set_up_logging("info", io.StringIO())
    log = structlog.get_logger("test")
    assert [log.is_enabled_for(level) for level in (logging.DEBUG, logging.INFO)] == [False, True]


def test_the_level_of_a_logger_changes_at_run_time() -> None:
    stream = io.StringIO()
    levels = set_up_logging("info", stream)
    log, other = structlog.get_logger("broker.node"), structlog.get_logger("broker.daemon")
    log.debug("a.dropped")
    assert "broker.node" in levels.described()
    change = ConfigChange("broker.node", ConfigOperation.SET, "DEBUG")
    levels.change([change], validate_only=False)
    log.debug("a.kept")
    other.debug("a.dropped")
    levels.change([ConfigChange("root", ConfigOperation.SET, "FATAL")], validate_only=False)
    other.error("a.dropped")
    other.critical("b.kept")
    log.log(20, "c.kept")
    structlog.get_logger().log(40, "d.dropped")
    events = [json.loads(line) for line in stream.getvalue().splitlines()]
    assert [(each["event"], each["level"]) for each in events] == [
        ("a.kept", "debug"),
        ("b.kept", "critical"),
        ("c.kept", "info"),
    ]


def test_failed_connections_of_a_stranger_do_not_fill_the_log() -> None:
    stream = io.StringIO()
    set_up_logging("info", stream)
    log = structlog.get_logger("test")
    for _ in range(2_000):
        log.warning("connection.dropped", client_host="10.0.0.9", reason="authentication failed")
    log.info("segment.rolled", base_offset=7)
    lines = [json.loads(line) for line in stream.getvalue().splitlines()]
    assert len(lines) == MAX_LINES_PER_HOST + 1
    assert lines[-2]["limit_reached"]
    assert lines[-1]["event"] == "segment.rolled"


def test_a_line_that_cannot_be_written_fails_nothing() -> None:
    with Path("/dev/full").open("w", encoding="utf-8") as full:
        set_up_logging("info", full)
        structlog.get_logger("test").info("segment.rolled")
        structlog.get_logger("test").exception("task.failed")
        with suppress(OSError):
            # Otherwise the end of the block would raise.
            full.close()
