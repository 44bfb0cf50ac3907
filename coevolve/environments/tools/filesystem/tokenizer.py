"""The tiny policy's tokenizer: 768 byte-pair entries over the words of the task grammar.

Names, extensions and argument openings are split before merging. So a name is the same token in an
instruction, in a call and in a tool's answer, and copying it means copying one token.
"""

from pathlib import Path

from tokenizers import Tokenizer

from coevolve.models.model_folder import TINY_FOLDER
from coevolve.models.tokenizer_file import read_tokenizer

CHECKPOINT = TINY_FOLDER
"""Folder of the shipped policy."""

VOCABULARY = 768

PAD, USER, CALL, OBSERVATION, END, DONE, EXPLORED, INSTRUCTION = range(8)
SPECIAL = ("<pad>", "<u>", "<a>", "<o>", "<e>", "<d>", "<s>", "<n>")
"""By token id: padding; start of a user's instruction; the policy writes from here; start of a
tool's answer; end of a call; end of a turn or of a synthesized instruction; start of an explored
trajectory; start of the instruction for it."""


def load_tokenizer(folder: Path) -> Tokenizer:
    """Return the tokenizer of a model folder; text like ``<u>`` is encoded as plain text.

    Raises ConfigError.
    """
    tokenizer = read_tokenizer(folder)
    tokenizer.encode_special_tokens = True
    return tokenizer
