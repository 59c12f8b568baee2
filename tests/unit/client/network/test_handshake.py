"""The beginning of a connection: `ottla.client.network.handshake`."""

import ssl
import tomllib
from pathlib import Path

import pytest

from ottla.client.network.handshake import SOFTWARE_NAME, SOFTWARE_VERSION, alert_of


def test_the_client_sends_its_real_name_and_version() -> None:
    project = tomllib.loads((Path(__file__).parents[4] / "pyproject.toml").read_text())["project"]
    assert (project["name"], project["version"]) == (SOFTWARE_NAME, SOFTWARE_VERSION)


@pytest.mark.parametrize(
    ("error", "alert"),
    [
        (ssl.SSLError(1, "[SSL: TLSV13_ALERT_CERTIFICATE_REQUIRED] x"), "certificate required"),
        (ssl.SSLError(1, "[SSL: TLSV1_ALERT_INTERNAL_ERROR] x"), None),
        (ssl.SSLError(1, "[SSL: WRONG_VERSION_NUMBER] x"), None),
        (ssl.SSLError(1, "x"), None),
        (ConnectionResetError(), None),
        (None, None),
    ],
)
def test_an_alert_refuses_the_handshake(error: Exception | None, alert: str | None) -> None:
    if isinstance(error, ssl.SSLError) and "[SSL: " in error.args[1]:
        # OpenSSL's errors have it, and ones that are made by hand do not.
        error.reason = error.args[1].partition("[SSL: ")[2].partition("]")[0]
    assert alert_of(error) == alert
