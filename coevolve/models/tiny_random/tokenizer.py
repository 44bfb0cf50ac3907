"""A tokenizer of two thousand entries with a chat template, made in a second.

Byte pairs are merged over the texts of the environment's training tasks, so a conversation takes
about as many tokens as with a large tokenizer. Names of special tokens and the chat template are
the model's own if it is on disk. Otherwise they are ChatML with calls in tags, the structure of
Qwen2.5 and Qwen3, in `chat_template.jinja`.
"""

# transformers is partly untyped.
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tokenizers import AddedToken, Regex, Tokenizer
from tokenizers.decoders import ByteLevel as ByteLevelDecoder
from tokenizers.models import BPE
from tokenizers.pre_tokenizers import ByteLevel, Sequence, Split
from tokenizers.trainers import BpeTrainer
from transformers import PreTrainedTokenizerFast

from coevolve.base.foreign import boundary
from coevolve.models.chat_template import read_tokenizer
from coevolve.models.model_files import DOWNLOAD_AGAIN
from coevolve.models.tiny_random.sizes import VOCABULARY
from protocols.errors import ConfigError

TEMPLATE = Path(__file__).parent / "chat_template.jinja"

_PIECES = r" ?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+|\s+"


@dataclass(frozen=True, kw_only=True)
class ChatFormat:
    """The tokens and the template that a chat model's tokenizer adds to plain text."""

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
    """Return a tokenizer trained on ``texts``; deterministic.

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
