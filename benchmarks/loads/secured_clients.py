"""Clients of secured listeners: requests in flight over one connection, and logins (edge)."""

from __future__ import annotations

import socket
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import Final

from benchmarks.loads.pipeline import READ_BUFFER_BYTES, SIZE_FIELD, exchange
from kafkawire.apis import ApiKey
from kafkawire.headers import decode_response_header, encode_request
from kafkawire.messages.metadata import MetadataRequest
from kafkawire.messages.sasl import (
    SaslAuthenticateRequest,
    SaslAuthenticateResponse,
    SaslHandshakeRequest,
)
from kafkawire.schema import decode
from kafkawire.scram import GS2_HEADER, Keys, encode_base64, parse_challenge

NONCE: Final = "fixed-nonce-of-the-benchmark"
CLIENT_HELLO: Final = b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03"
"""The start of a handshake that never continues."""

Connect = Callable[[], socket.socket]


class Answers:
    """Counts complete responses in a stream."""

    def __init__(self) -> None:
        self.count = 0
        self._missing_bytes = 0
        self._head = b""

    def add(self, data: memoryview) -> int:
        """Return how many responses `data` completes."""
        before, position = self.count, 0
        while position < len(data):
            if self._missing_bytes:
                step = min(self._missing_bytes, len(data) - position)
                position += step
                self._missing_bytes -= step
                self.count += not self._missing_bytes
                continue
            take = SIZE_FIELD.size - len(self._head)
            self._head += bytes(data[position : position + take])
            position = min(position + take, len(data))
            if len(self._head) == SIZE_FIELD.size:
                (self._missing_bytes,) = SIZE_FIELD.unpack(self._head)
                self._head = b""
        return self.count - before


def stream(
    open_connection: Connect, frames: Sequence[bytes], count: int, in_flight: int
) -> tuple[int, float]:
    """Send `count` frames in turn over one connection; return received bytes and seconds."""
    buffer = memoryview(bytearray(READ_BUFFER_BYTES))
    answers, sent, received_bytes = Answers(), 0, 0
    with open_connection() as connection:
        started_s = time.perf_counter()
        due = in_flight
        while answers.count < count:
            if due := min(due, count - sent):
                connection.sendall(
                    b"".join(frames[number % len(frames)] for number in range(sent, sent + due))
                )
                sent += due
            size = connection.recv_into(buffer)
            if not size:
                raise ConnectionError("the server closed the connection")
            received_bytes += size
            due = answers.add(buffer[:size])
        return received_bytes, time.perf_counter() - started_s


class Logins:
    """Logs in by SCRAM again and again; the keys are computed once, as clients may do."""

    def __init__(self, open_connection: Connect, mechanism: str, user: str, password: str) -> None:
        self._open_connection = open_connection
        self._mechanism, self._password = mechanism, password
        self._bare = f"n={user},r={NONCE}".encode()
        self._keys: dict[bytes, Keys] = {}

    def run(self, count: int) -> float:
        """Return the seconds that `count` logins take, one after the other."""
        started_s = time.perf_counter()
        for _ in range(count):
            with self._open_connection() as connection:
                self._log_in(connection)
        return time.perf_counter() - started_s

    def _log_in(self, connection: socket.socket) -> None:
        choice = SaslHandshakeRequest(mechanism=self._mechanism)
        exchange(connection, encode_request(ApiKey.SASL_HANDSHAKE, 1, 1, "bench", choice))
        first = self._send(connection, GS2_HEADER + self._bare)
        challenge = parse_challenge(first, NONCE)
        keys = self._keys.get(challenge.salt)
        if keys is None:
            keys = self._keys[challenge.salt] = Keys(
                self._mechanism, self._password, challenge.salt, challenge.iterations
            )
        final = f"c={encode_base64(GS2_HEADER)},r={challenge.nonce}".encode()
        proof = keys.proof(b",".join((self._bare, first, final)))
        self._send(connection, final + f",p={encode_base64(proof)}".encode())

    def _send(self, connection: socket.socket, token: bytes) -> bytes:
        request = SaslAuthenticateRequest(auth_bytes=token)
        answer = exchange(
            connection, encode_request(ApiKey.SASL_AUTHENTICATE, 1, 2, "bench", request)
        )
        _, start = decode_response_header(ApiKey.SASL_AUTHENTICATE, 1, answer)
        response = decode(SaslAuthenticateResponse, answer[start:], 1)
        if response.error_code:
            raise RuntimeError(f"the broker refused a login: {response.error_message}")
        return bytes(response.auth_bytes)


def delays_ms(open_connection: Connect, duration_s: float) -> list[float]:
    """Return the round-trip times of a client that asks for the brokers again and again."""
    frame = encode_request(ApiKey.METADATA, 9, 1, "bench", MetadataRequest(topics=[]))
    found = []
    with open_connection() as connection:
        ends_s = time.perf_counter() + duration_s
        while (began_s := time.perf_counter()) < ends_s:
            exchange(connection, frame)
            found.append((time.perf_counter() - began_s) * 1000)
    return sorted(found)


@contextmanager
def stuck_handshakes(host: str, port: int, count: int) -> Iterator[None]:
    """Hold `count` connections that have begun a handshake, and do not continue."""
    with ExitStack() as stack:
        for _ in range(count):
            connection = stack.enter_context(socket.create_connection((host, port)))
            connection.sendall(CLIENT_HELLO)
        yield
