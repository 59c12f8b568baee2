"""One Spark session for all tests that need one: starting it costs more than all of them."""

import shutil
from collections.abc import Iterator
from typing import Any

import pytest

# Without Java there are no audits; everything else of Ottla works, so its check does too.
needs_java = pytest.mark.skipif(shutil.which("java") is None, reason="there is no java")


# Compiling a plan takes longer than running it over a few hundred rows.
SETTINGS = {"spark.sql.shuffle.partitions": "1", "spark.sql.codegen.wholeStage": "false"}


@pytest.fixture(scope="session")
def spark() -> Iterator[Any]:
    """A session with one core."""
    from analytics import spark_session

    with pytest.MonkeyPatch.context() as patch:
        # It would be made when the session ends, which takes longer than it saves here.
        patch.setattr(spark_session, "_archive", lambda *_: "")
        session = spark_session.start_session("local[1]", SETTINGS)
        yield session
        session.stop()
