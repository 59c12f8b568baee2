"""Order of the outputs of a connection, for all short histories."""

from itertools import product

from coordination.server.connection_outputs import Outputs

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
