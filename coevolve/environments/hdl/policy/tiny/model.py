"""Writes the tiny hardware policy as a model folder."""

from pathlib import Path

from coevolve.environments.hdl.policy.tiny.vocabulary import IDS, MARKS, MODEL, WORDS
from coevolve.environments.sdk import write_word_model


def write_model(seed: int, folder: Path, *, plans: bool = False) -> None:
    """Write the untrained policy into ``folder``, unless that exists.

    With ``plans`` it has words for plans. Raises CheckpointError if writing fails.
    """
    words = tuple(IDS) if plans else WORDS
    write_word_model(folder, MODEL, words, marks=len(MARKS), seed=seed)
