"""Lets a process import the compiled modules, if they are those of its sources. Kind: edge."""

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
    """Finds the modules in `files`, by full name."""

    def __init__(self, files: Mapping[str, Path]) -> None:
        self._files = files

    def find_spec(
        self, name: str, _path: Sequence[str] | None = None, _target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Tell how to load a compiled module; None for any other, and for one that is gone.

        A daemon imports some when they are needed first, and may have been built again since.
        """
        file = self._files.get(name)
        if file is None or not file.exists():
            return None
        loader = ExtensionFileLoader(name, str(file))
        return spec_from_file_location(name, file, loader=loader)


def enable() -> bool:
    """Import the compiled modules from now on; return whether that was possible.

    Not so when they were not built, or from other sources, when `OTTLA_PURE_PYTHON` forbids it,
    when one of them was imported already, or when somebody traces this process: a debugger, and
    whoever counts lines, sees nothing of what is compiled.
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
    """Whether a daemon that is started now would run compiled modules."""
    return built_files(_HERE) is not None


def built_files(here: Path) -> dict[str, Path] | None:
    """Return what was built of the sources as they are, in this package at `here`, by module.

    None if anything is missing: the modules of a group know each other's insides.
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
