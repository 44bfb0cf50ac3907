"""The door to `coevolve.cli.environment`: ``python -m coevolve.environment``."""

from coevolve.cli.environment import main

if __name__ == "__main__":
    main()
