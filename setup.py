"""Composition: the compiled twins of kafkawire's inner loops, where they can be built.

Everything else stands in pyproject.toml. Without Cython or a C compiler the install goes on, and
the loops run in plain Python (docs/adr/0009-compiled-record-scanner.md).
"""

import os

from setuptools import Extension, setup

MODULES = ("_records", "_compaction", "_columns", "_frames", "_produce")
HEADERS = ["kafkawire/_walk.pxd", "kafkawire/_numbers.pxd", "kafkawire/_header.pxd"]

try:
    from Cython.Build import cythonize
except ImportError:
    extensions = []
else:
    modules = [
        Extension(f"kafkawire.{name}", [f"kafkawire/{name}.pyx"], depends=HEADERS)
        for name in MODULES
    ]
    extensions = cythonize(modules, build_dir="build/cython", quiet=True)
    for extension in extensions:
        # Not an argument above: cythonize makes extensions of its own, and forgets it.
        extension.optional = True

setup(ext_modules=extensions, options={"build_ext": {"parallel": os.cpu_count()}})
