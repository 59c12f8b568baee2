"""The name and version that the client sends to a broker."""

import tomllib
from pathlib import Path

from ottla.client.network.handshake import SOFTWARE_NAME, SOFTWARE_VERSION


def test_the_client_sends_its_real_name_and_version() -> None:
    project = tomllib.loads((Path(__file__).parents[4] / "pyproject.toml").read_text())["project"]
    assert (project["name"], project["version"]) == (SOFTWARE_NAME, SOFTWARE_VERSION)
