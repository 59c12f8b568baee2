"""Composition: the compiled twin of kafkawire's record loops, where it can be built.

Everything else stands in pyproject.toml. Without Cython or a C compiler the install goes on, and
the loops run in plain Python (docs/adr/0009-compiled-record-scanner.md).
"""

from setuptools import Extension, setup

try:
    from Cython.Build import cythonize
except ImportError:
    extensions = []
else:
    scanner = Extension("kafkawire._records", ["kafkawire/_records.pyx"])
    extensions = cythonize([scanner], build_dir="build/cython", quiet=True)
    for extension in extensions:
        # Not an argument above: cythonize makes extensions of its own, and forgets it.
        extension.optional = True

setup(ext_modules=extensions)
