"""Composition: the compiled twins of kafkawire's record loops, where they can be built.

Everything else stands in pyproject.toml. Without Cython or a C compiler the install goes on, and
the loops run in plain Python (docs/adr/0009-compiled-record-scanner.md).
"""

from setuptools import Extension, setup

try:
    from Cython.Build import cythonize
except ImportError:
    extensions = []
else:
    modules = [
        Extension(f"kafkawire.{name}", [f"kafkawire/{name}.pyx"], depends=["kafkawire/_walk.pxd"])
        for name in ("_records", "_compaction", "_columns")
    ]
    extensions = cythonize(modules, build_dir="build/cython", quiet=True)
    for extension in extensions:
        # Not an argument above: cythonize makes extensions of its own, and forgets it.
        extension.optional = True

setup(ext_modules=extensions)
