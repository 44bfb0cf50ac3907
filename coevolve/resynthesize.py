"""The door to `coevolve.cli.resynthesize`: ``python -m coevolve.resynthesize``."""

from coevolve.cli.resynthesize import main

if __name__ == "__main__":
    main()
