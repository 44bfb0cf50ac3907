"""The door to `coevolve.cli.launch`: ``python -m coevolve.launch``."""

import sys

from coevolve.cli.launch import main

if __name__ == "__main__":
    main(sys.argv[1:])
