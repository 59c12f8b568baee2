"""One Spark session for all tests that need one: its start takes longer than the tests."""

import shutil
import signal
from collections.abc import Iterator
from typing import Any

import pytest

# Without Java only the audits do not work, so the other tests must still pass.
needs_java = pytest.mark.skipif(shutil.which("java") is None, reason="there is no java")


# For a few hundred rows, code generation takes longer than the execution of the plan.
SETTINGS = {"spark.sql.shuffle.partitions": "1", "spark.sql.codegen.wholeStage": "false"}


@pytest.fixture(scope="session")
def spark() -> Iterator[Any]:
    """Start a session with one core."""
    from analytics import spark_session

    with pytest.MonkeyPatch.context() as patch:
        # Java writes the archive when the session ends, which takes longer than it saves here.
        patch.setattr(spark_session, "_archive", lambda *_: "")
        on_interrupt = signal.getsignal(signal.SIGINT)
        session = spark_session.start_session("local[1]", SETTINGS)
        # Later tests run in the same process. With Spark's handler, asyncio installs none.
        signal.signal(signal.SIGINT, on_interrupt)
        yield session
        session.stop()
