"""The compiled functions and their plain twins, side by side."""

from collections.abc import Callable
from importlib import import_module
from types import SimpleNamespace
from typing import Any

from kafkawire import native
from kafkawire.errors import DecodeError, EncodeError, WireError


def twins_of(module: str) -> list[Any]:
    """Return the plain twins of a compiled module, and the module itself if it is usable."""
    plain = SimpleNamespace(__name__=f"plain twins of {module}")
    for (compiled, home), names in native._TWINS.items():
        if compiled == module:
            vars(plain).update(
                (name, getattr(import_module(f"kafkawire.{home}"), name)) for name in names
            )
    found = native.compiled(module)
    return [plain] if found is None else [plain, found]


def outcome(call: Callable[..., Any], *arguments: Any) -> Any:
    """Return the result, or the kind of error; reasons count where users see them."""
    try:
        return call(*arguments)
    except (DecodeError, EncodeError) as error:
        return type(error), str(error)
    except WireError as error:
        return type(error)


def agreed(twins: list[Any], call: Callable[[Any], Any]) -> Any:
    """Return the outcome of `call` with each twin, which must be the same."""
    outcomes = [outcome(call, twin) for twin in twins]
    assert outcomes[0] == outcomes[-1]
    return outcomes[0]
