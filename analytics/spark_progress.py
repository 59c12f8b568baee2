"""Edge: the progress of the running Spark stage, shown only on a terminal."""

import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

_INTERVAL_S: Final = 0.2


@contextmanager
def shown_progress(context: Any) -> Iterator[None]:
    """Show a progress bar on standard error while the block runs, if that is a terminal."""
    if not sys.stderr.isatty():
        yield
        return
    from rich.console import Console
    from rich.progress import Progress

    done = threading.Event()
    tracker = context.statusTracker()
    with Progress(console=Console(stderr=True), transient=True) as progress:
        bar = progress.add_task("partitions", total=None)

        def watch() -> None:
            while not done.wait(_INTERVAL_S):
                stages = [tracker.getStageInfo(stage) for stage in tracker.getActiveStageIds()]
                for stage in stages[-1:]:
                    if stage is not None:
                        progress.update(
                            bar, total=stage.numTasks, completed=stage.numCompletedTasks
                        )

        watcher = threading.Thread(target=watch, daemon=True)
        watcher.start()
        try:
            yield
        finally:
            done.set()
            watcher.join()
