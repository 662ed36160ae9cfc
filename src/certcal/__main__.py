"""`python -m certcal` is the command line."""

import contextlib
import os
import sys

if __name__ == "__main__":
    # Python puts the working folder first on the path, and what lies there must not stand in for what we import.
    with contextlib.suppress(OSError):  # a working folder that is gone
        here = os.getcwd()
        sys.path[:] = [place for place in sys.path if place and os.path.realpath(place) != here]
    from certcal.cli import main

    main()
