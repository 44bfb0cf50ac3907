"""Writes the tiny hardware policy as a model folder: random weights, and a tokenizer of its words.

Qwen3's architecture, 0.4 million parameters. The same seed always makes the same files.
"""

# torch and transformers are partly untyped.
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false

from itertools import islice
from pathlib import Path

import torch
import transformers
from tokenizers import Tokenizer
from tokenizers.models import WordLevel
from tokenizers.pre_tokenizers import WhitespaceSplit
from transformers import AutoConfig, AutoModelForCausalLM, PreTrainedTokenizerFast

from coevolve.environments.hdl.policy.tiny.vocabulary import IDS, MARKS, MODEL, PAD, WORDS
from coevolve.environments.sdk import write_folder


def write_model(seed: int, folder: Path, *, plans: bool = False) -> None:
    """Write the untrained policy into ``folder``, unless that exists.

    With ``plans`` it has words for plans.

    Raises CheckpointError if writing fails.
    """
    if folder.is_dir():
        return
    transformers.utils.logging.disable_progress_bar()
    settings = dict(MODEL)
    settings["vocab_size"] = len(IDS if plans else WORDS)
    config = AutoConfig.for_model(settings.pop("model_type"), **settings)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        model = AutoModelForCausalLM.from_config(config)
    tokenizer = _tokenizer(len(IDS if plans else WORDS))

    def write(place: Path) -> None:
        model.save_pretrained(place)
        tokenizer.save_pretrained(place)

    write_folder(folder, write)


def _tokenizer(size: int) -> PreTrainedTokenizerFast:
    words = Tokenizer(WordLevel(dict(islice(IDS.items(), size)), unk_token=WORDS[PAD]))
    words.pre_tokenizer = WhitespaceSplit()
    words.add_special_tokens(list(MARKS))
    return PreTrainedTokenizerFast(
        tokenizer_object=words,
        pad_token=WORDS[PAD],
        unk_token=WORDS[PAD],
        clean_up_tokenization_spaces=False,
    )
