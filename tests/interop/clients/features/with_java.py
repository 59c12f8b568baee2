"""Kafka's own client, in Java, as the features use it (edge). `JavaClient.java` makes each call."""

import asyncio
import atexit
import shutil
import subprocess
import tempfile
from asyncio.subprocess import PIPE
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from functools import cache
from pathlib import Path
from typing import Final

from tests.interop.clients.features.features import Member
from tests.interop.kafka_jars import JARS

PROGRAM: Final = "JavaClient"
SOURCE: Final = Path(__file__).with_name(f"{PROGRAM}.java")
OPTIONS: Final = ("-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")
"""For processes that live for a second."""
ASSIGNORS: Final = "org.apache.kafka.clients.consumer"
TIMEOUT_S: Final = 60.0


def version() -> str:
    """Return the version of the client, "" without its jar."""
    names = [each.stem for each in JARS.glob("kafka-clients-*.jar")]
    return names[0].rpartition("-")[2] if names else ""


def command(*words: str) -> list[str]:
    """Return the command of a call."""
    return ["java", *OPTIONS, "-cp", f"{_classes()}:{JARS}/*", PROGRAM, *words]


@cache
def _classes() -> str:
    """Compile the program once per process, and return the folder of its classes."""
    folder = tempfile.mkdtemp(prefix="ottla-java-client-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    compiler = ["javac", "-cp", f"{JARS}/*", "-d", folder, str(SOURCE)]
    subprocess.run(compiler, check=True, timeout=TIMEOUT_S)
    return folder


class Polling:
    """A process with a consumer in a group, which polls once per line of its input."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process = process

    async def assigned(self) -> set[int]:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(b"\n")
        line = await self._process.stdout.readline()
        assert line, "the process has ended"
        return {int(each) for each in line.split()}


class Java:
    """`KafkaProducer`, `KafkaConsumer` and `Admin`."""

    def __init__(self, address: str) -> None:
        self._address = address

    async def write(self, topic: str, values: Sequence[bytes], *, codec: str | None = None) -> None:
        await self._call("write", topic, codec or "none", "false", *_hex(values))

    async def write_once(self, topic: str, values: Sequence[bytes]) -> None:
        await self._call("write", topic, "none", "true", *_hex(values))

    async def read(self, topic: str, count: int, *, committed: bool = False) -> list[bytes]:
        level = "read_committed" if committed else "read_uncommitted"
        return _values(await self._call("read", topic, str(count), level))

    async def transact(self, topic: str, values: Sequence[bytes], *, commit: bool) -> None:
        await self._call("transact", topic, "commit" if commit else "abort", *_hex(values))

    async def transact_offset(self, topic: str, group: str, offset: int) -> None:
        await self._call("transact-offset", topic, group, str(offset))

    @asynccontextmanager
    async def member(
        self, topic: str, group: str, *, instance: str | None = None, cooperative: bool = False
    ) -> AsyncIterator[Member]:
        assignor = "CooperativeStickyAssignor" if cooperative else "RangeAssignor"
        words = ("member", topic, group, instance or "", f"{ASSIGNORS}.{assignor}")
        process = await asyncio.create_subprocess_exec(
            *command(self._address, *words), stdin=PIPE, stdout=PIPE
        )
        try:
            yield Polling(process)
        finally:
            assert process.stdin is not None
            process.stdin.close()
            async with asyncio.timeout(TIMEOUT_S):
                assert await process.wait() == 0

    async def offset_at(self, topic: str, timestamp_ms: int) -> int:
        return int(await self._call("offset-at", topic, str(timestamp_ms)))

    async def read_matching(self, pattern: str, count: int, group: str) -> list[bytes]:
        return _values(await self._call("read-matching", pattern, str(count), group))

    async def create_and_delete(self, topic: str) -> None:
        await self._call("create-and-delete", topic)

    async def configure(self, topic: str) -> None:
        await self._call("configure", topic)

    async def delete_group(self, group: str) -> None:
        await self._call("delete-group", group)

    async def delete_records(self, topic: str, before: int) -> None:
        await self._call("delete-records", topic, str(before))

    async def _call(self, *words: str) -> str:
        """Run one call to its end, and return its output."""
        process = await asyncio.create_subprocess_exec(
            *command(self._address, *words), stdout=PIPE, stderr=PIPE
        )
        output, errors = await process.communicate()
        assert process.returncode == 0, errors.decode()
        return output.decode()


def _hex(values: Sequence[bytes]) -> list[str]:
    return [value.hex() for value in values]


def _values(output: str) -> list[bytes]:
    return [bytes.fromhex(line) for line in output.split()]
