"""The build of Ottla's compiled modules (composition).

All other settings are in pyproject.toml. Without Cython, mypy or a C compiler the install still
succeeds, and Ottla runs in plain Python (docs/adr/0009-compiled-record-scanner.md and
docs/adr/0043-hot-modules-are-compiled.md). OTTLA_PURE_PYTHON=1, which also lets daemons run the
plain sources, skips the compilation.
"""

import os
import runpy
import shutil
import sys
from pathlib import Path

from setuptools import Extension, setup

TWINS = ("_records", "_compaction", "_columns", "_frames", "_codecs")
HEADERS = [
    "kafkawire/_cursor.pxd",
    "kafkawire/_header.pxd",
    "kafkawire/_numbers.pxd",
    "kafkawire/_output.pxd",
    "kafkawire/_walk.pxd",
]
# Debug tables would take a quarter of the compile time.
NO_DEBUG_TABLES = ["-g0"]
# Strict checks run elsewhere. Libraries may be missing here; names from them have type Any.
MYPY_OPTIONS = ["--config-file=", "--ignore-missing-imports", "--python-version=3.11"]
HOT = runpy.run_path("speedups/modules.py")
STATE = HOT["sources_state"](Path())


def generated_codecs():
    """Write the generated part of `_codecs.pyx`, unless it is the same; return its path."""
    # The declarations are in the package itself, which needs no other package for this.
    sys.path.insert(0, str(Path.cwd()))
    from kafkawire.hot_codecs import codecs_source

    path, source = Path("build/cython/codecs.pxi"), codecs_source()
    if not path.exists() or path.read_text(encoding="utf-8") != source:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(source, encoding="utf-8")
    return path


def twins():
    """Return the extensions for the compiled twins of kafkawire's inner loops."""
    try:
        from Cython.Build import cythonize
    except ImportError:
        return []
    generated = generated_codecs()
    modules = [
        Extension(
            f"kafkawire.{name}",
            [f"kafkawire/{name}.pyx"],
            depends=[*HEADERS, str(generated)],
            extra_compile_args=NO_DEBUG_TABLES,
        )
        for name in TWINS
    ]
    include_path = [".", str(generated.parent)]
    return cythonize(modules, build_dir="build/cython", include_path=include_path, quiet=True)


def remove_former(folder):
    """Remove binaries in `folder` that were compiled from sources in another state."""
    for old in folder.glob("binaries_*"):
        if not old.name.endswith(STATE):
            shutil.rmtree(old)
    for old in folder.glob("*__mypyc*"):
        if STATE not in old.name:
            old.unlink()


def clear_build():
    """Remove all but current binaries from the folders in which setuptools gathers a wheel.

    It packs them whole, with the modules and binaries that only an earlier build had.
    """
    for library in Path("build").glob("lib*"):
        for path in library.rglob("*"):
            if path.is_file() and path.suffix != ".so":
                path.unlink()
        remove_former(library / "speedups")


def hot_modules():
    """Return the extensions for the modules that `speedups.modules` names."""
    try:
        from mypyc.build import mypycify
    except ImportError:
        return []
    remove_former(Path("speedups"))
    binaries = Path("speedups", HOT["folder_name"](STATE))
    files = {group: [] for group in HOT["GROUPS"]}
    for group, paths in files.items():
        for name in HOT["module_names"](group):
            path = Path(*name.split("."))
            (binaries / path.parent).mkdir(parents=True, exist_ok=True)
            paths.append(f"{path}.py")
    libraries = {
        group: HOT["library_name"](group, STATE).removesuffix("__mypyc") for group in files
    }
    try:
        extensions = mypycify(
            [*MYPY_OPTIONS, *(path for paths in files.values() for path in paths)],
            # Level 2 takes a fifth more time to compile, and no fewer instructions per request.
            opt_level="1",
            debug_level="0",
            separate=[(files[group], libraries[group]) for group in files],
            target_dir="build/mypyc",
        )
    except SystemExit as error:
        sys.stderr.write(f"The hot modules are not compiled: mypy ended with {error}.\n")
        return []
    for extension in extensions:
        # Beside the sources, every import of a source would find the binary.
        if not extension.name.startswith("speedups."):
            extension.name = f"speedups.{binaries.name}.{extension.name}"
    return extensions


def source_bytes(extension):
    """Return the size of the source to compile."""
    return sum(Path(source).stat().st_size for source in extension.sources)


# Two parallel compilers finish soonest if the largest sources come first.
is_pure = bool(os.environ.get("OTTLA_PURE_PYTHON"))
extensions = [] if is_pure else sorted([*twins(), *hot_modules()], key=source_bytes, reverse=True)
for extension in extensions:
    # Set here, because both compilers create new extensions without this attribute.
    extension.optional = True

clear_build()
setup(
    ext_modules=extensions,
    options={
        "build_ext": {"parallel": os.cpu_count()},
        # A directory on the path instead of a finder behind it. A finder loses to any folder of the
        # same name beside a user's script, such as this clone, which would be a namespace package.
        "editable_wheel": {"mode": "compat"},
    },
)
