"""Turns errors of users' classes and files into one-sentence errors of this project."""

import contextlib
import sys
from collections.abc import Generator

from protocols.errors import CoevolveError, ConfigError

TOLD_CHARS = 400
"""Maximum characters quoted of an error's message, which may contain a whole file."""


@contextlib.contextmanager
def told(what: str, remedy: str = "") -> Generator[None]:
    """Raise ConfigError for any exception of the block, and send its prints to standard error.

    ``what`` says what is required and where. A CoevolveError passes unchanged.
    """
    try:
        with contextlib.redirect_stdout(sys.stderr):
            yield
    except CoevolveError:
        raise
    except (Exception, SystemExit) as error:
        raise ConfigError(f"{what}: {described(error)}{remedy}") from error


def described(error: BaseException) -> str:
    """Return the type of an error and its message in one line."""
    text = " ".join(str(error).split())
    shown = text if len(text) <= TOLD_CHARS else f"{text[:TOLD_CHARS]}..."
    return f"{type(error).__name__}: {shown}"
