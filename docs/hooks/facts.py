"""The `Paper:`, `Errs:` and `Raises:` lines of docstrings, set as a small table instead of running text."""

import re
from typing import Any

PARAGRAPH = re.compile(r"<p>((?:Paper|Errs|Raises): .*?)</p>", re.DOTALL)
FACT = re.compile(r"(?:^|\n|\s{3})(Paper|Errs|Raises): ")
# What docstrings.py puts where a field has no comment.
SILENT = re.compile(r'–\s*<div class="doc-md-description">\s*<p>…</p>\s*</div>')


def on_page_content(html: str, **_: Any) -> str:
    return SILENT.sub("", PARAGRAPH.sub(lambda found: as_list(found[1]), html))


def as_list(text: str) -> str:
    """The facts of one paragraph as a definition list.

    >>> as_list("Paper: App. K.   Errs: low, as radii do.")
    '<dl class="facts"><dt>Paper</dt><dd>App. K.</dd><dt>Errs</dt><dd>low, as radii do.</dd></dl>'
    """
    _, *parts = FACT.split(text)
    pairs = zip(parts[::2], parts[1::2], strict=True)
    return f'<dl class="facts">{"".join(f"<dt>{name}</dt><dd>{fact.strip()}</dd>" for name, fact in pairs)}</dl>'
