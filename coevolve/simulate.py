"""The door to `coevolve.cli.simulate`: ``python -m coevolve.simulate``."""

import sys

from coevolve.cli.simulate import main

if __name__ == "__main__":
    sys.exit(main())
