"""``python -m coevolve.attach`` is ``coevolve attach``."""

import sys

from coevolve.cli.main import door

if __name__ == "__main__":
    sys.exit(door("attach"))
