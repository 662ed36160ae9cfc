"""Public names in running text lead to their place in the API pages, while the Markdown stays plain."""

import ast
import re
from pathlib import Path
from typing import Any

ROOMS = Path("src/certcal")
# Links, headings and blocks stay as they are; code that opens with a name, `certcal.evaluate(…)`, may become a link.
KEPT = r"<(a|h\d|pre)\b[^>]*>.*?</\1>"
KEPT_OR_CODE = re.compile(KEPT + r"|<code>((?:\w+\.)*(\w+))(?:\([^<]*)?</code>", re.DOTALL)


def public_names() -> dict[str, str]:
    """Each name in a room's `__all__` and where it is documented."""
    places = {"CertcalError": "certcal.CertcalError", "InputError": "certcal.InputError"}
    places["clopper_pearson"] = "certcal.proportions.clopper_pearson"
    for source in sorted(ROOMS.glob("*/__init__.py")):
        for node in ast.parse(source.read_text()).body:
            if isinstance(node, ast.Assign) and getattr(node.targets[0], "id", "") == "__all__":
                room = f"certcal.{source.parent.name}"
                places |= {name: f"{room}.{name}" for name in ast.literal_eval(node.value)}
    return places


def on_page_content(html: str, **_: Any) -> str:
    places = public_names()

    def link(found: re.Match[str]) -> str:
        path, name = found[2] or "", found[3]
        if name not in places or not places[name].endswith(path.removeprefix("certcal.")):
            return found[0]
        return f'<autoref optional identifier="{places[name]}">{found[0]}</autoref>'

    return KEPT_OR_CODE.sub(link, html)
