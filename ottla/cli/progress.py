"""Progress bar of a long command (edge)."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager


@contextmanager
def progress_bar(text: str, total_bytes: int) -> Iterator[Callable[[int], None]]:
    """Show a bar while the block runs; the yielded function advances it by a number of bytes."""
    if not sys.stderr.isatty():
        yield lambda _size_bytes: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (TextColumn(text), BarColumn(), DownloadColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task(text, total=total_bytes)
        yield lambda size_bytes: progress.advance(task, size_bytes)
