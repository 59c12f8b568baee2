"""A Prometheus of Debian that scrapes brokers and a coordinator (edge)."""

import json
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Self
from urllib.error import URLError
from urllib.parse import quote
from urllib.request import urlopen

import pytest

from tests.ports import free_port

PROGRAM = shutil.which("prometheus")
CONFIG = """\
global: {scrape_interval: 1s, scrape_timeout: 1s, evaluation_interval: 1s}
rule_files: ["%s"]
scrape_configs:
%s"""
JOB = '  - {job_name: "%s", static_configs: [{targets: [%s]}]}\n'

needs_prometheus = pytest.mark.skipif(
    PROGRAM is None, reason="there is no prometheus: apt-get install prometheus"
)


class Prometheus:
    """A server in `directory`, for the time of a `with` block."""

    def __init__(self, directory: Path, rules: Path, targets: Mapping[str, Sequence[str]]) -> None:
        """Scrape `targets`, addresses by the name of their job, and evaluate `rules`."""
        self._port = free_port()
        self._directory = directory
        jobs = "".join(
            JOB % (job, ", ".join(f'"{each}"' for each in addresses))
            for job, addresses in targets.items()
        )
        (directory / "prometheus.yml").write_text(CONFIG % (rules, jobs))

    def __enter__(self) -> Self:
        assert PROGRAM is not None
        with (self._directory / "prometheus.log").open("w") as log:
            self._process = subprocess.Popen(
                [
                    PROGRAM,
                    f"--config.file={self._directory}/prometheus.yml",
                    f"--storage.tsdb.path={self._directory}/data",
                    f"--web.listen-address=127.0.0.1:{self._port}",
                ],
                stdout=log,
                stderr=log,
            )
        return self

    def __exit__(self, *_trouble: object) -> None:
        self._process.terminate()
        self._process.wait(30)

    def query(self, expression: str) -> list[dict[str, Any]]:
        """Return the series of an instant query; none before the server answers."""
        path = f"query?query={quote(expression)}"
        series: list[dict[str, Any]] = self._get(path).get("result", [])
        return series

    def targets(self) -> list[dict[str, Any]]:
        """Return the targets with their health and last error."""
        found: list[dict[str, Any]] = self._get("targets").get("activeTargets", [])
        return found

    def alerts(self) -> list[dict[str, Any]]:
        """Return the alerts that are pending or firing."""
        found: list[dict[str, Any]] = self._get("alerts").get("alerts", [])
        return found

    def rules(self) -> dict[str, str]:
        """Return the expressions of the alert rules, by their names."""
        groups = self._get("rules").get("groups", [])
        return {rule["name"]: rule["query"] for group in groups for rule in group["rules"]}

    def _get(self, path: str) -> dict[str, Any]:
        try:
            with urlopen(f"http://127.0.0.1:{self._port}/api/v1/{path}", timeout=10) as response:
                answer = json.load(response)
        except URLError as error:
            # Not listening yet, or still loading its data.
            if isinstance(error.reason, ConnectionError) or getattr(error, "code", 0) == 503:
                return {}
            raise
        assert answer["status"] == "success", answer
        data: dict[str, Any] = answer["data"]
        return data
