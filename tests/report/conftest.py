"""The browser in which the tests of a module look at pages."""

import pytest

from browser import launch


@pytest.fixture(scope="module")
def browser():
    with launch() as browser:
        yield browser
