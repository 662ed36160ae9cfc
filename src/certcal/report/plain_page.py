"""Pages of figures and tables that load nothing and run no script."""

import io
from collections.abc import Callable, Sequence
from html import escape
from typing import Any


def plain_page(title: str, body: str) -> str:
    """A page with a title and a body of markup."""
    return _PAGE.format(title=escape(title), body=body)


def html_table(heads: Sequence[str], lines: Sequence[Sequence[str]], kind: str) -> str:
    """A table of texts; `kind` is its class in the style sheet. Text between two asterisks is strong."""
    head = "".join(f"<th>{escape(one)}</th>" for one in heads)
    body = "".join("<tr>" + "".join(f"<td>{_strong(cell)}</td>" for cell in line) + "</tr>" for line in lines)
    return f'<div class="wide"><table class="{kind}"><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>'


def _strong(cell: str) -> str:
    inner = cell.removeprefix("**").removesuffix("**")
    return f"<strong>{escape(inner)}</strong>" if cell == f"**{inner}**" != inner else escape(cell)


def figure_row(draws: Sequence[Callable[..., Any]], *, size: tuple[float, float] = (3.8, 3.2)) -> str:
    """Figures beside each other, each drawn by a function that takes the axes as `ax`."""
    return f'<div class="figures">{"".join(f"<figure>{_svg(one, size)}</figure>" for one in draws)}</div>\n'


def _svg(draw: Callable[..., Any], size: tuple[float, float]) -> str:
    import matplotlib
    from matplotlib.figure import Figure

    with matplotlib.rc_context({"svg.hashsalt": "certcal", "svg.fonttype": "none"}):
        figure = Figure(figsize=size, layout="constrained")
        draw(ax=figure.add_subplot())
        text = io.StringIO()
        figure.savefig(text, format="svg", metadata={"Date": None})
    return text.getvalue()[text.getvalue().index("<svg") :]


_PAGE = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'">
<title>{title}</title><style>
body {{ font: 15px/1.5 system-ui, sans-serif; color: #1c2530; max-width: 1240px; margin: 2rem auto; padding: 0 1.5rem }}
h1 {{ font-size: 1.4rem }} h2 {{ font-size: 1.1rem; margin-top: 2rem }} p {{ color: #55606d; max-width: 75ch }}
.figures {{ display: flex; flex-wrap: wrap; gap: 1rem }} figure {{ margin: 0 }} .wide {{ overflow-x: auto }}
table {{ border-collapse: collapse; font-variant-numeric: tabular-nums; font-size: 13.5px }}
th {{ text-align: right; font-weight: 600; color: #55606d; border-bottom: 1px solid #c9d0d8; padding: .3rem .8rem }}
td {{ text-align: right; padding: .15rem .8rem; white-space: nowrap }} .metrics td:nth-child(2) {{ text-align: left }}
.metrics td:first-child {{ font-weight: 600 }}
.names td:first-child, .names th:first-child, .names td:nth-child(2), .names th:nth-child(2) {{ text-align: left }}
.metrics tr:has(td:first-child:not(:empty)) td {{ border-top: 1px solid #e3e7eb }}
</style></head><body>
<h1>{title}</h1>
{body}</body></html>
"""
