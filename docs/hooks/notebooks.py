"""The notebooks of examples/ as pages, with what they showed when docs/notebooks.py ran them."""

import json
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File, Files

EXAMPLES = Path(__file__).parents[2] / "examples"
FOLDER = "notebooks"


def on_files(files: Files, config: Any) -> Files:
    for path in sorted(EXAMPLES.glob("*.ipynb")):
        page = as_markdown(json.loads(path.read_text(encoding="utf-8")), path.name)
        files.append(File.generated(config, f"{FOLDER}/{path.stem}.md", content=page))
    return files


def as_markdown(notebook: dict[str, Any], name: str) -> str:
    """A notebook as Markdown: its text, its code, and below it what it showed."""
    parts = []
    for cell in notebook["cells"]:
        source = "".join(cell["source"])
        if cell["cell_type"] == "markdown":
            parts.append(source)
        elif cell["cell_type"] == "code":
            parts.append(f"```python\n{source}\n```")
            parts += [shown for output in cell["outputs"] if (shown := as_html(output))]
    about = f"*This page is the notebook `examples/{name}`; the tests run it.*"
    return "\n\n".join([parts[0], about, *parts[1:]]) + "\n"


def as_html(output: dict[str, Any]) -> str:
    """One output: HTML or a picture if there is one, else its text. HTML in Markdown ends at an empty line."""
    data = output.get("data", {})
    if "text/html" in data:
        lines = [line for line in "".join(data["text/html"]).splitlines() if line.strip()]
        return '<div class="output">' + "\n".join(lines) + "</div>"
    if "image/png" in data:
        return (
            f'<div class="output"><img alt="" src="data:image/png;base64,{"".join(data["image/png"]).strip()}"></div>'
        )
    text = "".join(data.get("text/plain", output.get("text", ""))).rstrip()
    return f"```text\n{text}\n```" if text else ""
