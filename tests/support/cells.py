"""Cells of a notebook, run in a real kernel."""


def run_cells(*sources, cwd, seconds=120):
    """The notebook after its cells were run. Needs the extra `libraries`."""
    import nbformat
    from nbclient import NotebookClient

    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(source) for source in sources])
    return NotebookClient(
        notebook, timeout=seconds, kernel_name="python3", resources={"metadata": {"path": str(cwd)}}
    ).execute()
