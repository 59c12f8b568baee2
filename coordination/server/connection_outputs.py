"""The outputs of a connection, in order, until they may be sent (decision)."""

from collections import deque


class Outputs:
    """Outputs of one connection, in order; none leaves before its transaction is on disk.

    Invariant: before the end, no output is held, or the first held one waits for a sync.
    """

    def __init__(self) -> None:
        self._ready: list[bytes] = []
        self.held: deque[tuple[int, bytes | None]] = deque()
        """Outputs that wait for a sync, each with its transaction; the end of all is None."""
        self.ready_bytes = 0
        self.held_bytes = 0
        self.is_ended = False
        """Whether the end is released, and all outputs before it."""

    def add(self, packet: bytes | None, tag: int, synced_zxid: int) -> None:
        """Add an output of transaction `tag`, or with None the end of all outputs."""
        if packet and tag <= synced_zxid and not self.held and not self.is_ended:
            # The common case.
            self._ready.append(packet)
            self.ready_bytes += len(packet)
        else:
            self.held.append((tag, packet))
            self.held_bytes += len(packet or b"")
            if tag <= synced_zxid:
                self.release(synced_zxid)

    def release(self, synced_zxid: int) -> None:
        """Make the outputs of transactions up to `synced_zxid` ready, up to the first later one."""
        held = self.held
        while held and held[0][0] <= synced_zxid and not self.is_ended:
            packet = held.popleft()[1]
            if packet is None:
                self.is_ended = True
            else:
                self._ready.append(packet)
                self.held_bytes -= len(packet)
                self.ready_bytes += len(packet)

    def take(self) -> list[bytes]:
        """Remove and return the outputs that are ready."""
        ready, self._ready, self.ready_bytes = self._ready, [], 0
        return ready
