"""`python -m certcal` is the command line."""

from certcal.cli.app import main

if __name__ == "__main__":
    main()
