"""The command line: one thin verb per file, each a door to the public functions."""
