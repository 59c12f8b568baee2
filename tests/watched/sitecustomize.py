"""Edge: Python imports this file first in each process of a test run; see tests.planted_secrets."""

import importlib.util
import os
import sys
from pathlib import Path

if os.environ.get("OTTLA_TEST_SECRETS"):
    # By its path, because the process may run in another folder, without our packages.
    spec = importlib.util.spec_from_file_location(
        "_planted_secrets", Path(__file__).parents[1] / "planted_secrets.py"
    )
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    module.watch_streams()
    module.watch_arguments()
