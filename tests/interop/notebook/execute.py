"""Runs the cells of a notebook, in Jupyter's environment: `execute.py NOTEBOOK EXECUTED`."""

import sys
from pathlib import Path

import nbformat
from nbclient import NotebookClient

CELL_TIMEOUT_S = 600

if __name__ == "__main__":
    notebook = nbformat.read(Path(sys.argv[1]), as_version=4)
    try:
        NotebookClient(notebook, timeout=CELL_TIMEOUT_S, kernel_name="python3").execute()
    finally:
        nbformat.write(notebook, Path(sys.argv[2]))
