"""How a part's process starts: with a log of its own, and with a garbage collector that waits.

What goes wrong unexpectedly, while it starts or later, is in that log with its traceback.
"""

import gc
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

import structlog

from coevolve.parts import logs
from protocols.errors import CoevolveError

log = structlog.get_logger()


@contextmanager
def starting(run_dir: Path, part: str) -> Generator[None]:
    """Make the part inside this.

    Loading torch and transformers leaves some 400,000 objects that live as long as the process.
    Looking through them again and again takes a fifth of that time, and later a third of a second
    at every full collection, so they are left out of all collections.
    """
    logs.to_file(run_dir, part)
    gc.disable()
    try:
        with unexpected_logged():
            yield
        gc.collect()
        gc.freeze()
    finally:
        gc.enable()


@contextmanager
def unexpected_logged() -> Generator[None]:
    """Log the traceback of an exception inside that is none of this project's; it goes on."""
    try:
        yield
    except CoevolveError:
        raise
    except Exception:
        log.exception("unexpected_error")
        raise
