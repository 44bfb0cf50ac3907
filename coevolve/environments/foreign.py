"""Turns errors of users' classes and files into one-sentence errors of this project."""

import contextlib
import os
import sys
import threading
from collections.abc import Generator
from typing import NoReturn

from coevolve.foreign import boundary, described
from protocols.errors import ConfigError


@contextlib.contextmanager
def told(what: str, remedy: str = "") -> Generator[None]:
    """Raise ConfigError for any exception of the block, and send its prints to standard error.

    ``what`` says what is required and where. A CoevolveError and an interrupt pass unchanged.
    """
    with boundary(ConfigError, what, remedy), contextlib.redirect_stdout(sys.stderr):
        try:
            yield
        except (Exception, KeyboardInterrupt, GeneratorExit):
            raise
        except BaseException as error:  # SystemExit, or a class of one's own
            raise ConfigError(f"{what}: {described(error)}{remedy}") from error


@contextlib.contextmanager
def exits_raised() -> Generator[None]:
    """Raise SystemExit in place of an ``os._exit`` of the block, which would end this process.

    Other threads and forked processes still end at once.
    """
    end, caller = os._exit, (os.getpid(), threading.get_ident())

    def refuse(status: int) -> NoReturn:
        if os._exit is refuse and (os.getpid(), threading.get_ident()) == caller:
            raise SystemExit(f"it calls os._exit({status})")
        end(status)

    os._exit = refuse
    try:
        yield
    finally:
        os._exit = end
