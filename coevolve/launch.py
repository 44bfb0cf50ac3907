"""``python -m coevolve.launch`` is ``coevolve launch``."""

import sys

from coevolve.cli.main import door

if __name__ == "__main__":
    sys.exit(door("launch"))
