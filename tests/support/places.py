"""Where things are, and what Python reads there."""

import ast
from functools import cache
from pathlib import Path

SUPPORT = Path(__file__).parent
ROOT = SUPPORT.parent.parent

parsed = cache(ast.parse)  # each file of the library, for all who look for something in them
