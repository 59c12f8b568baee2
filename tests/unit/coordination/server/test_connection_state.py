"""Order of the outputs of a connection, for all short histories; and its states."""

from collections.abc import Callable, Mapping
from itertools import product

import pytest

from coordination.protocol import frames, jute
from coordination.protocol.messages import OpCode, ReadRequest
from coordination.server.connection_state import ConnectionState, Outputs
from coordination.server.server_connection import Connection
from tests.unit.coordination.server.test_server_connection import MemoryTransport, connected

NEW, FRESH, OPEN, ENDING, CLOSED = ConnectionState
LAST_ZXID = 3
END = None


def expected(added: list[tuple[int, bytes | None]], synced_zxid: int) -> tuple[list[bytes], bool]:
    """Return the outputs that may have left, and whether these are all before the end."""
    packets: list[bytes] = []
    for tag, packet in added:
        if tag > synced_zxid:
            return packets, False
        if packet is None:
            return packets, True
        packets.append(packet)
    return packets, False


def test_outputs_leave_in_order_after_their_sync_and_none_after_the_end() -> None:
    steps = [*product(range(1, LAST_ZXID + 1), (b"packet", END)), "sync", "take"]
    for history in product(steps, repeat=4):
        outputs, synced_zxid = Outputs(), 1
        added: list[tuple[int, bytes | None]] = []
        taken: list[bytes] = []
        for number, step in enumerate(history):
            if step == "sync":
                synced_zxid += 1
                outputs.release(synced_zxid)
            elif step == "take":
                taken += outputs.take()
            else:
                assert isinstance(step, tuple)
                packet = b"%d" % number if step[1] else END
                added.append((step[0], packet))
                outputs.add(packet, step[0], synced_zxid)
            left, is_ended = expected(added, synced_zxid)
            ready = left[len(taken) :]
            held = [packet or b"" for _, packet in added[len(left) + is_ended :]]
            assert outputs.is_ended == is_ended
            assert outputs.ready_bytes == sum(map(len, ready))
            assert (len(outputs.held), outputs.held_bytes) == (len(held), sum(map(len, held)))
        assert taken + outputs.take() == left


def close_session(connection: Connection) -> None:
    connection.data_received(frames.encode_request(1, OpCode.CLOSE_SESSION))


def ask(connection: Connection) -> None:
    request = jute.encode(ReadRequest("/", False))
    connection.data_received(frames.encode_request(1, OpCode.EXISTS, request))


EVENTS: Mapping[str, Callable[[Connection], None]] = {
    "request": ask,
    "bad frame": lambda connection: connection.data_received(b"\xff" * 4),
    "close session": close_session,
    "end": lambda connection: connection.close_after_outputs(1 << 40),
    "close": Connection.close,
    "abort": Connection.abort,
    "lost": lambda connection: connection.connection_lost(None),
}
PATHS = {OPEN: [], ENDING: ["end"], CLOSED: ["close"]}
CLOSES = {"bad frame", "close session", "close", "abort", "lost"}


@pytest.mark.parametrize("event", EVENTS)
@pytest.mark.parametrize("state", PATHS, ids=lambda state: state.name)
async def test_a_connection_only_moves_forward(state: ConnectionState, event: str) -> None:
    connection, transport = await connected()
    for step in PATHS[state]:
        EVENTS[step](connection)
    assert connection._state is state
    written = len(transport.written)
    EVENTS[event](connection)
    # A connection that ends runs no more requests.
    is_inert = state is ENDING and event == "close session"
    after = CLOSED if event in CLOSES and not is_inert else ENDING if event == "end" else OPEN
    assert connection._state is max(state, after)
    is_answered = state is OPEN and event in ("request", "close session")
    assert (len(transport.written) > written) == is_answered


async def test_a_connection_is_fresh_until_four_bytes_have_arrived() -> None:
    opened, _ = await connected()
    connection = Connection(opened._server)
    assert not connection.is_made
    connection.connection_made(MemoryTransport())
    states = []
    for byte in b"ruok":
        states.append(connection._state)
        connection.data_received(bytes([byte]))
    assert (states, connection._state) == ([FRESH] * 4, CLOSED)
