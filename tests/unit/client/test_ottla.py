"""The names that `import ottla` provides, and the modules that it must not load."""

import subprocess
import sys

import pytest

import ottla

SERVER_SIDE = ("broker", "storage", "coordination", "controller", "analytics")
NOT_NEEDED = ("typer", "rich", "structlog", "uvloop", "msgpack")


def imported_by(statement: str) -> set[str]:
    """Return the top-level modules that a fresh interpreter has imported after `statement`."""
    code = (
        f"{statement}\nimport sys\nprint(*sorted({{name.split('.')[0] for name in sys.modules}}))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return set(done.stdout.split())


def test_every_public_name_can_be_imported() -> None:
    for name in ottla.__all__:
        assert getattr(ottla, name).__name__ == name
    assert set(ottla.__all__) <= set(dir(ottla))


def test_a_private_name_is_missing() -> None:
    with pytest.raises(AttributeError, match="Broker"):
        ottla.Broker  # noqa: B018


def test_importing_ottla_costs_nothing() -> None:
    assert not imported_by("import ottla") & {"asyncio", "kafkawire"}


def test_the_client_needs_neither_the_servers_nor_their_libraries() -> None:
    names = imported_by("from ottla import Admin, Consumer, Producer")
    assert "kafkawire" in names
    assert not names & {*SERVER_SIDE, *NOT_NEEDED}
