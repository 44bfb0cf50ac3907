"""Reads files that a user names, up to a number of bytes."""

from pathlib import Path

from protocols.errors import ConfigError


def bounded_bytes(path: Path, most: int) -> bytes:
    """Return what a file holds, at most ``most`` bytes. Raises ConfigError where that fails."""
    try:
        with path.open("rb") as file:
            found = file.read(most + 1)
    except OSError as error:
        raise ConfigError(f"{path}: cannot be read: {error.strerror}") from error
    if len(found) > most:
        raise ConfigError(f"{path}: needs to have at most {most} bytes, has more")
    return found
