"""Execute the notebooks, which are kept as text, and turn them into pages.

    python docs/hooks/notebooks.py    # in full, into build/notebooks; `make notebooks` does so

The site shows notebooks that were executed in full, if they are up to date. Otherwise it executes them at the reduced
size of the tests, which takes seconds, and says so on the page.
"""

import hashlib
import os
import re
import sys
import time
from pathlib import Path

ROOT = Path(__file__).parents[2]
SOURCES = sorted((ROOT / "notebooks").glob("*.py"))
EXECUTED = ROOT / "build" / "notebooks"
FULL, QUICK = "full", "quick"
ENVIRONMENT = {
    FULL: {"MUPC_NOTEBOOKS": FULL, "OPENBLAS_NUM_THREADS": "1"},  # threads slow small factorisations down
    QUICK: {"MUPC_NOTEBOOKS": QUICK, "OPENBLAS_NUM_THREADS": "1", "JAX_DISABLE_MOST_OPTIMIZATIONS": "true"},
}
"""Sizes of the notebooks, and how they are computed: at the reduced size, compiling is most of the work."""
REDUCED = """!!! note "Reduced size"
    This page was built without `make notebooks`: networks are smaller, and numbers and figures differ from those that
    the text describes.
"""
COLOURS = re.compile(r"\x1b\[[0-9;]*m")


def executed(source, size):
    """Return the notebook of the last execution, with its outputs; None if there is none of this source."""
    import nbformat

    path = _path(source, size)
    notebook = nbformat.read(path, as_version=4) if path.is_file() else None
    return notebook if notebook is not None and notebook.metadata.get("source") == _digest(source) else None


def execute(source, size):
    """Execute a notebook, keep it, and return it."""
    import jupytext
    import nbformat
    from nbclient import NotebookClient
    from traitlets.config import Config

    os.environ |= ENVIRONMENT[size]
    notebook = jupytext.read(source)
    files = Config(KernelManager={"transport": "ipc"})  # instead of TCP, which other users could read
    folder = {"metadata": {"path": str(ROOT)}}
    NotebookClient(notebook, kernel_name="python3", timeout=600, resources=folder, config=files).execute()
    notebook.metadata["source"] = _digest(source)
    path = _path(source, size)
    path.parent.mkdir(parents=True, exist_ok=True)
    nbformat.write(notebook, path)
    return notebook


def _path(source, size):
    return EXECUTED / size / f"{source.stem}.ipynb"


def _digest(source):
    return hashlib.sha256(source.read_bytes()).hexdigest()


def page(source):
    """Return a notebook as Markdown, and its pictures by name."""
    from nbconvert import MarkdownExporter

    full = executed(source, FULL)
    notebook = full or executed(source, QUICK) or execute(source, QUICK)
    for cell in notebook.cells:
        cell["outputs"] = _joined(output for output in cell.get("outputs", []) if _tells(output))
    text, resources = MarkdownExporter().from_notebook_node(notebook)
    pictures = {f"{source.stem}-{name}": data for name, data in resources["outputs"].items()}
    for name in resources["outputs"]:
        text = text.replace(f"({name})", f"({source.stem}-{name})")
    head, _, rest = COLOURS.sub("", text).strip().partition("\n")
    origin = f"*A notebook: `notebooks/{source.name}`, executed by `make notebooks`.*\n"
    return "\n".join([head, "", origin, "" if full else REDUCED, rest]), pictures


def _tells(output):
    """Return whether an output belongs to the story. Progress, warnings and names of objects do not."""
    if output["output_type"] == "execute_result":
        return "image/png" in output["data"]
    return output.get("name") != "stderr"


def _joined(outputs):
    """Join lines that were printed one after the other, which would otherwise be boxes of their own."""
    joined = []
    for output in outputs:
        if joined and output["output_type"] == joined[-1]["output_type"] == "stream":
            joined[-1]["text"] += output["text"]
        else:
            joined.append(output)
    return joined


def main():
    for source in SOURCES:
        begin = time.perf_counter()
        execute(source, FULL)
        print(f"{source.stem}: {time.perf_counter() - begin:.0f} s")
    return 0


if __name__ == "__main__":
    sys.exit(main())
