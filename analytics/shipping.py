"""The shipping of our modules to a cluster's workers, compiled modules included (edge).

Python modules travel as one zip. Compiled modules cannot be imported from a zip and travel as plain
files. A worker with the same Python on the same platform adopts them before any import of the
loops. Any other worker gets the same results from the plain loops, more slowly.
"""

import atexit
import importlib.machinery
import importlib.util
import shutil
import sys
import tempfile
import zipfile
from functools import cache
from pathlib import Path
from typing import Any, Final

PACKAGES: Final = ("kafkawire", "logcheck", "analytics")
COMPILED: Final = ("_records", "_columns")
ROOT: Final = Path(__file__).resolve().parents[1]


def ship_modules(context: Any) -> None:
    """Send our modules to the workers."""
    # We came in a zip ourselves: spark-submit has sent it to the workers too.
    if not ROOT.is_dir():
        return
    context.addPyFile(str(_own_zip()))
    for name in COMPILED:
        for module in (ROOT / "kafkawire").glob(
            f"{name}.*{importlib.machinery.EXTENSION_SUFFIXES[0]}"
        ):
            context.addFile(str(module))


@cache
def _own_zip() -> Path:
    """Return the zip of this process, which is removed at its end.

    Spark serves it to workers that start later, and refuses another path for the same name.
    """
    folder = Path(tempfile.mkdtemp(prefix="ottla-modules-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return write_zip(folder / "ottla-modules.zip")


def write_zip(path: Path) -> Path:
    """Write the Python modules for the workers, for `spark-submit --py-files`."""
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for package in PACKAGES:
            for module in sorted((ROOT / package).rglob("*.py")):
                archive.write(module, module.relative_to(ROOT))
    return path


def main(arguments: list[str]) -> int:
    """Run `python -m analytics.shipping FILE.zip`, which writes the file for --py-files."""
    if len(arguments) != 1:
        sys.stderr.write("usage: python -m analytics.shipping FILE.zip\n")
        return 2
    write_zip(Path(arguments[0]))
    return 0


def adopt_compiled() -> None:
    """Import the compiled modules that were shipped as files, if they fit this interpreter."""
    for name in COMPILED:
        full_name = f"kafkawire.{name}"
        if full_name in sys.modules:
            continue
        found = importlib.machinery.PathFinder.find_spec(name, sys.path)
        if found is None or found.origin is None:
            continue
        loader = importlib.machinery.ExtensionFileLoader(full_name, found.origin)
        spec = importlib.util.spec_from_file_location(full_name, found.origin, loader=loader)
        if spec is None:
            continue
        try:
            module = importlib.util.module_from_spec(spec)
            loader.exec_module(module)
        except ImportError:
            # Built for another Python, or the plain loops were requested.
            continue
        sys.modules[full_name] = module


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
