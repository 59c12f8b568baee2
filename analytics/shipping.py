"""Edge: our modules on their way to a cluster's workers, the compiled ones included.

Python modules travel as one zip. Compiled ones cannot be imported from a zip: they travel as plain
files, and a worker that runs the same Python on the same platform adopts them before anything else
imports the loops. Any other worker gets the same answers from the plain loops, slower.
"""

import importlib.machinery
import importlib.util
import sys
import tempfile
import zipfile
from pathlib import Path
from typing import Any, Final

PACKAGES: Final = ("kafkawire", "analytics")
COMPILED: Final = ("_records", "_columns")
ROOT: Final = Path(__file__).resolve().parents[1]


def ship_modules(context: Any) -> None:
    """Give the workers our modules; where we came in a zip ourselves they have them."""
    if not ROOT.is_dir():
        return
    folder = Path(tempfile.mkdtemp(prefix="ottla-modules-"))
    context.addPyFile(str(write_zip(folder / "ottla-modules.zip")))
    for name in COMPILED:
        for module in (ROOT / "kafkawire").glob(
            f"{name}.*{importlib.machinery.EXTENSION_SUFFIXES[0]}"
        ):
            context.addFile(str(module))


def write_zip(path: Path) -> Path:
    """Write the Python modules that workers need; what `spark-submit --py-files` takes."""
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for package in PACKAGES:
            for module in sorted((ROOT / package).rglob("*.py")):
                archive.write(module, module.relative_to(ROOT))
    return path


def main(arguments: list[str]) -> int:
    """`python -m analytics.shipping FILE.zip`: write what spark-submit's --py-files takes."""
    if len(arguments) != 1:
        sys.stderr.write("python -m analytics.shipping FILE.zip\n")
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
            # Of another Python, or the plain loops were asked for.
            continue
        sys.modules[full_name] = module


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
