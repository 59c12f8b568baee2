"""The packages of the extra `console` (edge)."""

from importlib.util import find_spec
from typing import Final

PACKAGES: Final = ("jinja2", "starlette", "uvicorn")


def missing_package() -> str | None:
    """Return a package of the extra that is not installed; None if all are."""
    return next((name for name in PACKAGES if find_spec(name) is None), None)
