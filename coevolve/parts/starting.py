"""How a part's process starts: with a log of its own, and with a garbage collector that waits."""

import gc
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

from coevolve.parts import logs


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
        yield
        gc.collect()
        gc.freeze()
    finally:
        gc.enable()
