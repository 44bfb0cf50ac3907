"""Reads a model's fast tokenizer; its file may come from anybody."""

from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

from tokenizers import Tokenizer

from coevolve.base.foreign import boundary, native_to_errors
from coevolve.models.model_files import DOWNLOAD_AGAIN
from protocols.errors import CoevolveError, ConfigError

TOKENIZER = "tokenizer.json"
"""Its file in a model's folder."""


def read_tokenizer(folder: Path, error: type[CoevolveError] = ConfigError) -> Tokenizer:
    """Return the tokenizer of a model's folder. Raises ``error`` if its file is none."""
    with reading_tokenizer(folder, error):
        return Tokenizer.from_file(str(folder / TOKENIZER))


@contextmanager
def reading_tokenizer(folder: Path, error: type[CoevolveError] = ConfigError) -> Generator[None]:
    """Raise ``error`` for what goes wrong in a block that reads a folder's tokenizer."""
    what = f"policy.model: {folder / TOKENIZER} needs to be a tokenizer"
    with boundary(error, what, DOWNLOAD_AGAIN), native_to_errors():
        yield
