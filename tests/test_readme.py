"""The README's Python runs as pasted, and the values in its comments are true."""

import re
from pathlib import Path

import pytest

README = (Path(__file__).parent.parent / "README.md").read_text()
BLOCKS = re.findall(r"```python\n(.*?)```", README, flags=re.DOTALL)


@pytest.mark.parametrize("block", BLOCKS)
def test_block_runs_and_its_numbers_are_true(block):
    names = {}
    for line in block.splitlines():
        match = re.match(r"(.+?)\s+# (\d+\.\d+)", line)
        if match:
            expression, number = match.groups()
            assert eval(expression, names) == pytest.approx(float(number), abs=5e-5), line
        else:
            exec(line, names)
