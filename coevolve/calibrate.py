"""The door to `coevolve.cli.calibrate`: ``python -m coevolve.calibrate``."""

from coevolve.cli.calibrate import main

if __name__ == "__main__":
    main()
