"""Kafka's own VerifiableProducer, which prints each acknowledged record and its offset. Edge."""

import json
import signal
import subprocess
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Final, NamedTuple, Self

from kafkawire.ids import TopicPartition
from tests.waiting import until

END_TIMEOUT_S: Final = 60.0
SETTINGS: Final = {
    # The tool disables retries to see failures, which would also disable idempotence.
    "retries": "2147483647",
    "enable.idempotence": "true",
    "delivery.timeout.ms": "60000",
    "request.timeout.ms": "3000",
    "metadata.max.age.ms": "5000",
    "reconnect.backoff.max.ms": "500",
}


class Acknowledged(NamedTuple):
    """A record that the brokers acknowledged, with its partition and offset."""

    partition: TopicPartition
    offset: int
    value: bytes


class VerifiableProducer:
    """A Java producer with acks=all that sends until the end of its `with` block."""

    def __init__(
        self, bootstrap: str, topic: str, prefix: int, directory: Path, jars: Path, rate: int
    ) -> None:
        self.output = directory / f"java-{prefix}.jsonl"
        config = directory / f"java-{prefix}.properties"
        config.write_text("".join(f"{key}={value}\n" for key, value in SETTINGS.items()))
        with self.output.open("w") as output:
            self._process = subprocess.Popen(
                [
                    *("java", "-Xmx96m", "-XX:TieredStopAtLevel=1", "-cp", f"{jars}/*"),
                    "org.apache.kafka.tools.VerifiableProducer",
                    *("--bootstrap-server", bootstrap, "--topic", topic, "--acks", "-1"),
                    *("--throughput", str(rate), "--value-prefix", str(prefix)),
                    *("--producer.config", str(config)),
                ],
                stdout=output,
                stderr=subprocess.STDOUT,
            )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        _kind: type[BaseException] | None,
        _error: BaseException | None,
        _trace: TracebackType | None,
    ) -> None:
        # On SIGTERM it closes the producer, so that every record gets its outcome.
        self._process.send_signal(signal.SIGTERM)
        try:
            self._process.wait(END_TIMEOUT_S)
        finally:
            self._process.kill()

    async def wait_for_success(self) -> None:
        """Wait until the first record is acknowledged."""
        await until(lambda: bool(self.acknowledged()), "the first acknowledgement")

    def acknowledged(self) -> Sequence[Acknowledged]:
        """Return the records acknowledged so far."""
        return [
            Acknowledged(
                TopicPartition(event["topic"], event["partition"]),
                event["offset"],
                event["value"].encode(),
            )
            for event in self._events("producer_send_success")
        ]

    def failed(self) -> Sequence[str]:
        """Return the failures so far."""
        return [json.dumps(event) for event in self._events("producer_send_error")]

    def _events(self, name: str) -> list[dict[str, Any]]:
        lines = self.output.read_text().splitlines()
        # The last line may be incomplete.
        events = [json.loads(line) for line in lines if line.startswith("{") and line[-1] == "}"]
        return [event for event in events if event["name"] == name]
