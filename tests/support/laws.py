"""How many examples a law is tried on."""

from hypothesis import settings


def examples(count):
    """So many examples, or the few of the profile `certcal-quick`."""
    few = settings.default.max_examples
    return settings(max_examples=min(count, few) if few < 100 else count)
