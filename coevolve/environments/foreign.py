"""Where classes and files of others are read: whatever that raises is told in one sentence."""

import contextlib
import sys
from collections.abc import Generator

from protocols.errors import CoevolveError, ConfigError

TOLD_CHARS = 400
"""Of what was raised, this much is told: a file may stand in it."""


@contextlib.contextmanager
def told(what: str, remedy: str = "") -> Generator[None]:
    """Raise ConfigError in place of what is raised, and print on standard error.

    ``what`` says what is needed and where. Errors with words of their own are left alone.
    """
    try:
        with contextlib.redirect_stdout(sys.stderr):
            yield
    except CoevolveError:
        raise
    except (Exception, SystemExit) as error:
        raise ConfigError(f"{what}: {described(error)}{remedy}") from error


def described(error: BaseException) -> str:
    """Return the kind of an error, and what it says, in one line."""
    said = " ".join(str(error).split())
    shown = said if len(said) <= TOLD_CHARS else f"{said[:TOLD_CHARS]}..."
    return f"{type(error).__name__}: {shown}"
