"""The import of compiled modules, if they match the process's sources (edge)."""

import os
import sys
from collections.abc import Mapping, Sequence
from importlib.machinery import EXTENSION_SUFFIXES, ExtensionFileLoader, ModuleSpec
from importlib.util import spec_from_file_location
from pathlib import Path
from types import ModuleType

from speedups.modules import GROUPS, folder_name, library_name, module_names, sources_state

_HERE = Path(__file__).resolve().parent


class Finder:
    """A finder of the modules in `files`, by full name."""

    def __init__(self, files: Mapping[str, Path]) -> None:
        self._files = files

    def find_spec(
        self, name: str, _path: Sequence[str] | None = None, _target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Return the spec of a compiled module; None for any other, or if its file has gone.

        A daemon imports some modules late, and a new build may have removed the files by then.
        """
        file = self._files.get(name)
        if file is None or not file.exists():
            return None
        loader = ExtensionFileLoader(name, str(file))
        return spec_from_file_location(name, file, loader=loader)


def enable() -> bool:
    """Import the compiled modules from now on; return whether that was possible.

    It is not possible if they were not built, or from other sources; if `OTTLA_PURE_PYTHON` forbids
    it; if one of them was imported already; or if this process is traced, because debuggers and
    coverage tools see nothing of compiled code.
    """
    if os.environ.get("OTTLA_PURE_PYTHON", "0") not in ("", "0") or sys.gettrace() is not None:
        return False
    files = built_files(_HERE)
    if files is None or any(name in sys.modules for name in files):
        return False
    sys.meta_path.insert(0, Finder(files))
    return True


def is_enabled() -> bool:
    """Whether this process imports the compiled modules."""
    return any(isinstance(finder, Finder) for finder in sys.meta_path)


def are_built() -> bool:
    """Whether a newly started daemon would run compiled modules."""
    return built_files(_HERE) is not None


def built_files(here: Path) -> dict[str, Path] | None:
    """Return the binaries of the current sources, in this package at `here`, by module.

    The result is None if any is missing, because the modules of a group depend on each other's
    internals.
    """
    suffix, state = EXTENSION_SUFFIXES[0], sources_state(here.parent)
    files: dict[str, Path] = {}
    for group in GROUPS:
        library = here / f"{library_name(group, state).removeprefix('speedups.')}{suffix}"
        if not library.exists():
            return None
        for name in module_names(group):
            files[name] = here / folder_name(state) / f"{name.replace('.', '/')}{suffix}"
    return files if all(file.exists() for file in files.values()) else None
