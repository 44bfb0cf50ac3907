"""Start-up of a part's process: it gets its own log and a deferred garbage collector.

The log receives the traceback of every unexpected error, during start-up and later, and of one
that an error of this project explains, during start-up.
"""

import gc
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path

import structlog

from coevolve.parts import logs
from protocols.errors import CoevolveError

log = structlog.get_logger()


@contextmanager
def starting(
    run_dir: Path, part: str, send: Callable[[str], None] | None = None
) -> Generator[None]:
    """Context manager for the creation of the part; ``send`` is `coevolve.parts.logs.to_file`'s.

    Loading torch and transformers leaves some 400,000 objects that live as long as the process.
    Repeated collections over them take a fifth of the loading time, and later a third of a second
    per full collection. They are therefore excluded from all collections.
    """
    logs.to_file(run_dir, part, send)
    gc.disable()
    try:
        with unexpected_logged():
            yield
        gc.collect()
        gc.freeze()
    except CoevolveError as error:
        if error.__cause__ is not None:
            log.exception("start_failed")
        raise
    finally:
        gc.enable()


@contextmanager
def unexpected_logged() -> Generator[None]:
    """Log the traceback of any exception that is not a CoevolveError; re-raise all exceptions."""
    try:
        yield
    except CoevolveError:
        raise
    except Exception:
        log.exception("unexpected_error")
        raise
