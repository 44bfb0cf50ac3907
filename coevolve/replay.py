"""The door to `coevolve.cli.replay`: ``python -m coevolve.replay``."""

from coevolve.cli.replay import main

if __name__ == "__main__":
    main()
