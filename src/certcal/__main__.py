"""`python -m certcal` is the command line."""

import os
import sys

if __name__ == "__main__":
    # Python puts the working folder first on the path, and what lies there must not stand in for what we import.
    sys.path[:] = [place for place in sys.path if place and os.path.realpath(place) != os.path.realpath(os.curdir)]
    from certcal.cli.app import main

    main()
