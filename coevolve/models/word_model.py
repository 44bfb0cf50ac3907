"""Writes a small policy as a model folder: random weights, and a tokenizer with a token a word."""

# torch and transformers are partly untyped.
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch
import transformers
from tokenizers import Tokenizer
from tokenizers.models import WordLevel
from tokenizers.pre_tokenizers import WhitespaceSplit
from transformers import AutoConfig, AutoModelForCausalLM, PreTrainedTokenizerFast

from coevolve.models.architecture import ModelConfig
from coevolve.models.atomic_folder import write_folder


def _no_training(_model: Any) -> None:
    return


def write_word_model(
    folder: Path,
    config: ModelConfig,
    words: Sequence[str],
    *,
    marks: int,
    seed: int,
    train: Callable[[Any], None] = _no_training,
) -> None:
    """Write a policy that speaks ``words`` into ``folder``, unless that exists.

    The words are in the order of their tokens, and begin with the padding. The first ``marks`` of
    them are special tokens. ``train`` changes the weights. The same seed always makes the same
    files. Raises CheckpointError if writing fails.
    """
    if folder.is_dir():
        return
    transformers.utils.logging.disable_progress_bar()
    settings = dict(config)
    settings["vocab_size"] = len(words)
    shape = AutoConfig.for_model(settings.pop("model_type"), **settings)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        model: Any = AutoModelForCausalLM.from_config(shape)
        train(model)
    tokenizer = _tokenizer(words, marks)

    def write(place: Path) -> None:
        model.save_pretrained(place)
        tokenizer.save_pretrained(place)

    write_folder(folder, write)


def _tokenizer(words: Sequence[str], marks: int) -> PreTrainedTokenizerFast:
    ids = {word: number for number, word in enumerate(words)}
    split = Tokenizer(WordLevel(ids, unk_token=words[0]))
    split.pre_tokenizer = WhitespaceSplit()
    split.add_special_tokens(list(words[:marks]))
    return PreTrainedTokenizerFast(
        tokenizer_object=split,
        pad_token=words[0],
        unk_token=words[0],
        clean_up_tokenization_spaces=False,
    )
