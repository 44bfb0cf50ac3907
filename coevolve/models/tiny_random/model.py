"""Writes a tiny model with random weights and another model's architecture, to test a run file.

The architecture is that of the model's `config.json`: its class, norms, positions and tied weights,
including a mixture of experts. The same seed always makes the same files.
"""

# torch and transformers are partly untyped.
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# transformers is partly untyped.

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import torch
import transformers
from tokenizers import AddedToken, Regex, Tokenizer
from tokenizers.decoders import ByteLevel as ByteLevelDecoder
from tokenizers.models import BPE
from tokenizers.pre_tokenizers import ByteLevel, Sequence, Split
from tokenizers.trainers import BpeTrainer
from transformers import AutoConfig, AutoModelForCausalLM, PreTrainedTokenizerFast

from coevolve.base.foreign import boundary
from coevolve.models.architecture import ModelConfig
from coevolve.models.atomic_folder import write_folder
from coevolve.models.chat_template import read_tokenizer
from coevolve.models.model_files import DOWNLOAD_AGAIN
from coevolve.models.model_folder import local_folder, model_config
from coevolve.models.tiny_random.sizes import VOCABULARY, tiny_config
from protocols.config import RunConfig
from protocols.errors import ConfigError


def write_model(config: RunConfig, folder: Path, texts: Iterable[str]) -> None:
    """Write the tiny random model of ``config`` into ``folder``; keep an existing one.

    Its tokenizer is trained on ``texts``.

    Raises:
        ConfigError: Transformers does not support the model's architecture.
        CheckpointError: Writing failed.
    """
    if folder.is_dir():
        return
    own = model_config(config.policy)
    transformers.utils.logging.disable_progress_bar()
    tokenizer = make_tokenizer(format_of(local_folder(config.policy.model)), texts)
    small = tiny_config(
        own,
        vocabulary=len(tokenizer),
        length=config.rollout.max_tokens,
        end=cast("int", tokenizer.eos_token_id),
        pad=cast("int", tokenizer.pad_token_id),
    )
    model = _new_model(small, config.seed)

    def write(place: Path) -> None:
        model.save_pretrained(place)
        tokenizer.save_pretrained(place)

    write_folder(folder, write)


def _new_model(config: ModelConfig, seed: int) -> Any:
    settings = dict(config)
    kind = settings.pop("model_type", "")
    try:
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            return AutoModelForCausalLM.from_config(AutoConfig.for_model(kind, **settings))
    except (ValueError, KeyError, TypeError) as error:
        raise ConfigError(
            f"policy.tiny_random: needs an architecture that transformers supports, found "
            f"{kind!r}: {error}; omit the setting"
        ) from error


TEMPLATE = Path(__file__).parent / "chat_template.jinja"

_PIECES = r" ?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+|\s+"


@dataclass(frozen=True, kw_only=True)
class ChatFormat:
    """The tokens and the template that a chat model's tokenizer adds to plain text.

    They are the model's own if it is on disk. Otherwise they are ChatML with calls in tags, the
    structure of Qwen2.5 and Qwen3, in `chat_template.jinja`.
    """

    template: str | dict[str, str]
    """Several have names."""

    end: str
    """Token that ends a message."""

    pad: str
    special: tuple[str, ...]
    words: tuple[str, ...]
    """Added tokens that are not special."""


CHATML = ChatFormat(
    template=TEMPLATE.read_text("utf-8"),
    end="<|im_end|>",
    pad="<|endoftext|>",
    special=("<|endoftext|>", "<|im_start|>", "<|im_end|>"),
    words=("<tool_call>", "</tool_call>", "<tool_response>", "</tool_response>"),
)


def format_of(folder: Path | None) -> ChatFormat:
    """Return the chat format of a model folder; ChatML if it has none."""
    if folder is None or not (folder / "tokenizer_config.json").is_file():
        return CHATML
    with boundary(ConfigError, f"policy.model: {folder} needs a usable tokenizer", DOWNLOAD_AGAIN):
        return _format_of(read_tokenizer(folder))


def _format_of(tokenizer: Any) -> ChatFormat:
    if not tokenizer.chat_template:
        return CHATML
    added = list(tokenizer.added_tokens_decoder.values())
    return ChatFormat(
        template=tokenizer.chat_template,
        end=tokenizer.eos_token,
        pad=tokenizer.pad_token or tokenizer.eos_token,
        special=tuple(token.content for token in added if token.special),
        words=tuple(token.content for token in added if not token.special),
    )


def make_tokenizer(chat: ChatFormat, texts: Iterable[str]) -> PreTrainedTokenizerFast:
    """Return a tokenizer of two thousand entries, trained on ``texts``; deterministic.

    Byte pairs are merged over the texts of the environment's training tasks, so a conversation
    takes about as many tokens as with a large tokenizer.

    It has up to ``VOCABULARY`` entries, plus those of the format.
    """
    tokenizer = Tokenizer(BPE())
    tokenizer.pre_tokenizer = Sequence(
        [Split(Regex(_PIECES), "isolated"), ByteLevel(add_prefix_space=False, use_regex=False)]
    )
    tokenizer.decoder = ByteLevelDecoder()
    trainer = BpeTrainer(
        vocab_size=VOCABULARY,
        special_tokens=list(chat.special),
        initial_alphabet=ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator(texts, trainer)
    tokenizer.add_tokens([AddedToken(word, normalized=False) for word in chat.words])
    wrapped = PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        eos_token=chat.end,
        pad_token=chat.pad,
        clean_up_tokenization_spaces=False,
    )
    wrapped.chat_template = chat.template
    return wrapped
