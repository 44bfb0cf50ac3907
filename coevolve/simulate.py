"""The door to `coevolve.cli.simulate`: ``python -m coevolve.simulate``."""

import sys

from coevolve.environments.hdl.needs import leave_without_slang

if __name__ == "__main__":
    leave_without_slang()
    from coevolve.cli.simulate import main

    sys.exit(main())
