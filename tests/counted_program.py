"""Edge: `python -m tests.counted_program MODULE ARGUMENT...` runs a program, counting lines."""

import runpy
import sys

from tests import line_counter

if __name__ == "__main__":
    del sys.argv[0]
    try:
        runpy.run_module(sys.argv[0], run_name="__main__", alter_sys=True)
    finally:
        line_counter.save()
