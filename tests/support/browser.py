"""A real browser to look at pages with: Debian's chromium, driven by playwright."""

import os
import shutil
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest

PROBES = Path(__file__).with_name("page_probes.js").read_text(encoding="utf-8").partition("\n")[2].strip()
NAMES = ("chromium", "chromium-browser", "google-chrome")
# No sandbox, because tests may run as root in a container; the rest keeps it from phoning home.
FLAGS = [
    "--no-sandbox", "--disable-gpu", "--disable-background-networking", "--disable-component-update", "--disable-sync",
    "--no-first-run",
]  # fmt: skip


def missing(what):
    """Skip, saying what to install; fail where a browser is required."""
    reason = f"{what}; `apt-get install chromium` and `pip install playwright` bring it"
    if os.environ.get("CERTCAL_REQUIRE_BROWSER") == "1":
        pytest.fail(f"CERTCAL_REQUIRE_BROWSER=1, but {reason}", pytrace=False)
    pytest.skip(reason)


@contextmanager
def launch():
    """A headless browser, or a skip where there is none."""
    path = next(filter(None, map(shutil.which, NAMES)), None) or missing(f"no browser found among {', '.join(NAMES)}")
    try:
        from playwright.sync_api import sync_playwright
    except ImportError:
        missing("the Python package playwright is not installed")
    with sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=path, args=FLAGS)
        yield browser
        browser.close()


@dataclass
class Watched:
    """An open page, and all it said or asked for while it was open."""

    page: object
    complaints: list = field(default_factory=list)

    def __post_init__(self):
        self.page.on("console", lambda message: self.complaints.append(f"console: {message.text}"))
        self.page.on("pageerror", lambda error: self.complaints.append(f"error: {error}"))
        self.page.on("request", lambda request: self.complaints.append(f"request: {request.url[:99]}"))


def probe(page, name, argument=None):
    """What that function of page_probes.js finds in the page."""
    return page.evaluate(f"([name, argument]) => {PROBES}[name](argument)", [name, argument])


@contextmanager
def open_page(browser, path, *, width=1280, scheme="light", hash="", **options):
    """A page of our own on a screen of that width. It must not complain, nor ask for anything but itself."""
    viewport = {"width": width, "height": 844}
    context = browser.new_context(viewport=viewport, color_scheme=scheme, reduced_motion="reduce", **options)
    watched = Watched(context.new_page())
    try:
        watched.page.goto(path.as_uri() + hash)
        yield watched.page
        assert [line for line in watched.complaints if line != f"request: {path.as_uri()[:99]}"] == []
    finally:
        context.close()
