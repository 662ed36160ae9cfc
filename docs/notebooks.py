"""Runs the notebooks of examples/ and keeps what they show; docs/hooks/notebooks.py makes pages of them.

`python docs/notebooks.py` runs all of them, `python docs/notebooks.py own_network` one.
"""

import os
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

import nbformat
from nbclient import NotebookClient

EXAMPLES = Path(__file__).parents[1] / "examples"
INLINE = {"MPLBACKEND": "module://matplotlib_inline.backend_inline"}  # whatever the machine asks for elsewhere


def run(path: Path) -> nbformat.NotebookNode:
    """A notebook after its cells were run in an empty folder, with what they show."""
    notebook = nbformat.read(path, as_version=4)
    with TemporaryDirectory() as folder:
        client = NotebookClient(notebook, timeout=300, kernel_name="python3", resources={"metadata": {"path": folder}})
        client.execute(env=os.environ | INLINE)
    for cell in notebook.cells:
        cell.metadata = {}  # times of execution, which differ every time
    notebook.metadata = {name: notebook.metadata[name] for name in ("kernelspec", "language_info")}
    notebook.metadata["language_info"] = {"name": "python"}
    return notebook


if __name__ == "__main__":
    for path in sorted(EXAMPLES.glob("*.ipynb")):
        if path.stem in sys.argv[1:] or not sys.argv[1:]:
            nbformat.write(run(path), path)
            print(path.name)
