"""``python -m coevolve`` is the command ``coevolve``."""

import sys

from coevolve.cli.main import main

if __name__ == "__main__":
    sys.exit(main())
