"""The door to `coevolve.cli.evaluate`: ``python -m coevolve.evaluate``."""

import sys

from coevolve.cli.evaluate import main

if __name__ == "__main__":
    sys.exit(main())
