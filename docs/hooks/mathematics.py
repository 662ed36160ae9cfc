"""Mathematics that renders without scripts or network: $…$ becomes MathML, which browsers draw themselves."""

import re
from html import unescape
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from fontTools import subset
from latex2mathml.converter import convert

# What pymdownx.arithmatex makes of $…$ and $$…$$.
INLINE = re.compile(r'<span class="arithmatex">\\\((.*?)\\\)</span>', re.DOTALL)
BLOCK = re.compile(r'<div class="arithmatex">\s*\\\[(.*?)\\\]\s*</div>', re.DOTALL)
# Formulas need a font that knows how they are spaced, and not every machine has one. ziamath brings STIX Two, of which
# the site takes Latin, Greek, their italics and the operators.
FONT = Path("fonts", "STIXTwoMath-Regular.ttf")
CHARACTERS = "U+20-7E,U+D7,U+393-3F5,U+2010-2044,U+210E,U+2190-22EF,U+25A1,U+1D434-1D467,U+1D6FC-1D71B"


def on_page_content(html: str, **_: Any) -> str:
    html = INLINE.sub(lambda found: convert(unescape(found[1])), html)
    return BLOCK.sub(lambda found: f'<div class="formula">{convert(unescape(found[1]), display="block")}</div>', html)


def on_post_build(config: Any) -> None:
    source = Path(find_spec("ziamath").submodule_search_locations[0]) / FONT
    target = Path(config.site_dir, "assets", "formulas.woff")
    subset.main([str(source), f"--unicodes={CHARACTERS}", "--flavor=woff", f"--output-file={target}"])
