"""Check of stand-alone Spark masters, reachable or not."""

import socket
import time

import pytest

from analytics.errors import AuditError
from analytics.spark_session import CONNECT_TIMEOUT_S, check_master
from tests.ports import free_port


def test_unreachable_master_fails_with_one_sentence_in_bounded_time() -> None:
    url = f"spark://127.0.0.1:{free_port()},127.0.0.1:{free_port()}"
    started_s = time.monotonic()
    with pytest.raises(AuditError, match=r"^no Spark master answers at .*Connection refused"):
        check_master(url)
    assert time.monotonic() - started_s < 2 * CONNECT_TIMEOUT_S


def test_one_reachable_master_of_two_is_enough() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
        check_master(f"spark://127.0.0.1:{free_port()},127.0.0.1:{port}")


@pytest.mark.parametrize("url", ["", "local[2]", "yarn", "k8s://https://127.0.0.1:1"])
def test_other_masters_are_left_to_spark(url: str) -> None:
    check_master(url)


@pytest.mark.parametrize("place", ["127.0.0.1:port", "127.0.0.1:70000"])
def test_invalid_port_is_reported(place: str) -> None:
    with pytest.raises(AuditError, match=place):
        check_master(f"spark://{place}")
