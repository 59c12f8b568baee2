"""Edge: an import of this module enables the compiled modules in this process, if they exist."""

import os

from speedups.finder import enable

if not enable() and os.environ.get("OTTLA_TEST_COMPILED"):
    raise RuntimeError("no compiled modules match these sources: run `make compile`")
