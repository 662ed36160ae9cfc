"""certcal inside other ecosystems; each module needs its own extra."""
