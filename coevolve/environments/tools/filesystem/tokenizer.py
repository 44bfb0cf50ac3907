"""The tiny policy's tokenizer: 768 byte-pair entries over the words of the task grammar.

Names, extensions and argument openings are split before merging. So a name is the same token in an
instruction, in a call and in a tool's answer, and copying it means copying one token.
"""

from collections.abc import Iterator
from pathlib import Path

import numpy as np
from tokenizers import Regex, Tokenizer
from tokenizers.decoders import ByteLevel as ByteLevelDecoder
from tokenizers.models import BPE
from tokenizers.pre_tokenizers import ByteLevel, Sequence, Split
from tokenizers.trainers import BpeTrainer

from coevolve.environments.tools.filesystem.grammar import UNIFORM, draw_task
from coevolve.environments.tools.task import tool_task
from coevolve.foreign import boundary, native_to_errors
from coevolve.models.model_files import DOWNLOAD_AGAIN
from coevolve.models.model_folder import TINY_FOLDER
from protocols.errors import ConfigError

CHECKPOINT = TINY_FOLDER
"""Folder of the shipped policy."""

FILE_NAME = "tokenizer.json"
VOCABULARY = 768

PAD, USER, CALL, OBSERVATION, END, DONE, EXPLORED, INSTRUCTION = range(8)
SPECIAL = ("<pad>", "<u>", "<a>", "<o>", "<e>", "<d>", "<s>", "<n>")
"""By token id: padding; start of a user's instruction; the policy writes from here; start of a
tool's answer; end of a call; end of a turn or of a synthesized instruction; start of an explored
trajectory; start of the instruction for it."""

_PIECES = (
    r"[a-z_]+\("  # a tool and its parenthesis
    r"|[a-z_]+[0-9]?='?"  # an argument's name and the opening quote
    r"|\.[a-z]+"  # an extension
    r"| ?[a-zA-Z]+"
    r"|[0-9]"
    r"|[^\sa-zA-Z0-9]+"
    r"|\s"
)


def train_tokenizer(tasks: int = 1500, seed: int = 5) -> Tokenizer:
    """Return a tokenizer that is trained on the texts of ``tasks`` random tasks."""
    tokenizer = Tokenizer(BPE())
    tokenizer.pre_tokenizer = Sequence(
        [
            Split(Regex(_PIECES), "isolated"),
            ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
    tokenizer.decoder = ByteLevelDecoder()
    trainer = BpeTrainer(
        vocab_size=VOCABULARY,
        special_tokens=list(SPECIAL),
        initial_alphabet=ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator(_texts(tasks, seed), trainer)
    return tokenizer


def load_tokenizer(folder: Path) -> Tokenizer:
    """Return the tokenizer of a model folder; text like ``<u>`` is encoded as plain text.

    Raises ConfigError.
    """
    path = folder / FILE_NAME
    what = f"policy.model: {path} needs to be a tokenizer"
    with boundary(ConfigError, what, DOWNLOAD_AGAIN), native_to_errors():
        tokenizer = Tokenizer.from_file(str(path))
    tokenizer.encode_special_tokens = True
    return tokenizer


def _texts(tasks: int, seed: int) -> Iterator[str]:
    from coevolve.environments.tools.filesystem.renderer import spoken

    for index in range(tasks):
        task = draw_task(np.random.default_rng((seed, index)), UNIFORM, 3)
        for turn in tool_task(task).turns:
            yield turn.instruction
            yield from turn.reference
            yield from map(spoken, turn.results)
