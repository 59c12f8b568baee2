"""Wall clocks of daemons that a test can step while they run (edge).

Only `time.time` and `time.time_ns` are affected, the sources of a daemon's wall-clock time. The
monotonic clocks and the times of files are the system's.
"""

import mmap
import os
import time
from pathlib import Path
from struct import Struct
from typing import Final

VARIABLE: Final = "OTTLA_TEST_CLOCKS"
"""Environment variable of daemons: the directory with a file for the offset of each one's clock."""
_OFFSET_NS: Final = Struct("=q")
_NS_PER_S: Final = 1_000_000_000


def set_offset(directory: Path, pid: int, offset_s: int) -> None:
    """Let the clock of a running daemon differ from the system's by `offset_s` seconds."""
    with (directory / str(pid)).open("r+b") as file:
        file.write(_OFFSET_NS.pack(offset_s * _NS_PER_S))


def replace_clock() -> None:
    """Replace the clock of this process, if a test asks for it."""
    if VARIABLE not in os.environ:
        return
    path = Path(os.environ[VARIABLE], str(os.getpid()))
    path.write_bytes(_OFFSET_NS.pack(0))
    with path.open("r+b") as file:
        offset = mmap.mmap(file.fileno(), _OFFSET_NS.size)
    system_ns = time.time_ns

    def time_ns() -> int:
        return system_ns() + int(_OFFSET_NS.unpack(offset)[0])

    time.time_ns = time_ns
    time.time = lambda: time_ns() / _NS_PER_S
