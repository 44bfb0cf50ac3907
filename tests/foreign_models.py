"""The readers of a model's folder, each with one of its files changed."""

import json
from collections.abc import Callable
from pathlib import Path

import torch
import transformers
from safetensors.torch import save_file

from coevolve.environments.tools.chat.renderer import ChatRenderer
from coevolve.models.architecture import architecture
from coevolve.models.chat_template import LOAD_S
from coevolve.models.load import read_model, read_outline
from coevolve.models.model_folder import INDEX, TINY_FOLDER, check_model, model_config
from protocols.config import ChatConfig, PolicyConfig
from protocols.errors import ConfigError, DependencyError
from tests.coevolve.environments.tools.chat import models
from tests.foreign_readers import Reader, scratch

REFUSALS = (ConfigError, DependencyError)

BAD_JSON = (
    *(b"", b"{", b"[]", b"null", b'"a"', b"\xff", b"[" * 60_000, b'{"a":' * 60_000),
    *(b'{"model_type": ' + b"9" * 5000 + b"}", b'{"a": NaN}', b'{"\\ud800": 1}'),
)


def _policy(folder: Path) -> PolicyConfig:
    return PolicyConfig(model=str(folder))


def _replaced(folder: Path, name: str, read: Callable[[Path], object]) -> Callable[[bytes], object]:
    """Return a reader that puts its input into one file of the folder."""

    def from_file(content: bytes) -> object:
        (folder / name).write_bytes(content)
        return read(folder)

    return from_file


def _quiet() -> None:
    transformers.utils.logging.set_verbosity_error()


def _small() -> Path:
    """Return the folder of a model of some thousand parameters."""
    _quiet()
    folder = scratch()
    sizes = {"hidden_size": 32, "intermediate_size": 32, "num_hidden_layers": 1, "head_dim": 32}
    heads = {"num_attention_heads": 1, "num_key_value_heads": 1, "layer_types": ["full_attention"]}
    kept = json.loads((TINY_FOLDER / "config.json").read_bytes())
    (folder / "config.json").write_text(json.dumps(kept | sizes | heads | {"vocab_size": 64}))
    model = read_outline(folder).to_empty(device="cpu")
    model.tie_weights()
    model.save_pretrained(folder)
    return folder


def configs() -> Reader:
    """The `config.json` of a model, up to its weights."""
    folder = _small()
    real = (folder / "config.json").read_bytes()

    def read(place: Path) -> object:
        sizes = architecture(model_config(_policy(place)))
        return sizes and sizes.parameters, read_model(place)

    code = json.loads(real) | {"model_type": "own", "auto_map": {"AutoConfig": "own.Own"}}
    huge = json.loads(real) | {"num_hidden_layers": 10**9}
    wide = json.loads(real) | {"vocab_size": 2**31 - 1, "hidden_size": 2**20}
    none = json.loads(real) | {"num_attention_heads": 0}
    hub = json.loads(real) | {"attn_implementation": "someone/kernel"}
    bad = (json.dumps(each).encode() for each in (code, huge, wide, none, hub))
    return Reader(
        real=(real,),
        bad=(*BAD_JSON, *bad),
        read=_replaced(folder, "config.json", read),
        refusals=REFUSALS,
        structure="json",
        most_ms=2000.0,
    )


def weights() -> Reader:
    """The weights of a model, in the format safetensors."""
    folder = _small()
    other = scratch() / "other.safetensors"
    save_file({"a": torch.zeros(3, 4)}, other)

    def read(place: Path) -> object:
        check_model(_policy(place), ())
        return read_model(place)

    return Reader(
        real=((folder / "model.safetensors").read_bytes(), other.read_bytes()),
        bad=(b"", b"\xff" * 8, b"\x10" + b"\0" * 7 + b"{" * 16, b"\0" * 8),
        read=_replaced(folder, "model.safetensors", read),
        refusals=REFUSALS,
        most_ms=2000.0,
    )


def indices() -> Reader:
    """The index of a model's weights."""
    folder = _small()
    real = json.dumps({"metadata": {}, "weight_map": {"a": "model.safetensors"}}).encode()
    return Reader(
        real=(real,),
        bad=(
            *BAD_JSON,
            b'{"weight_map": {"a": 1}}',
            b'{"weight_map": {"a": "' + b"a" * 300 + b'"}}',
            b'{"weight_map": {"a": "../x\\u0000"}}',
        ),
        read=_replaced(folder, INDEX, lambda place: check_model(_policy(place), ())),
        refusals=REFUSALS,
        structure="json",
    )


def _chat(name: str, *bad: bytes, most_ms: float = 3000.0) -> Reader:
    """Return the reader of a chat model's folder in which the file ``name`` is changed."""
    _quiet()
    folder = models.save(models.TAGS, scratch())
    return Reader(
        real=((folder / name).read_bytes(),),
        bad=bad,
        read=_replaced(folder, name, lambda place: ChatRenderer.load(place, ChatConfig())),
        refusals=REFUSALS,
        structure="json" if name.endswith(".json") else "",
        most_ms=most_ms,
    )


def tokenizers() -> Reader:
    """The `tokenizer.json` of a chat model."""
    return _chat("tokenizer.json", *BAD_JSON)


def tokenizer_settings() -> Reader:
    """The `tokenizer_config.json` of a chat model."""
    code = b'{"tokenizer_class": "Own", "auto_map": {"AutoTokenizer": ["own.Own", null]}}'
    return _chat("tokenizer_config.json", code, *BAD_JSON)


def templates() -> Reader:
    """The chat template of a chat model."""
    bad = (
        *(
            b"{{ 1 // 0 }}",
            b"{{ messages.x.y }}",
            b"{% include 'x' %}",
            b"{{ range(10 ** 9) | list }}",
        ),
        *(b"{% macro a() %}{{ a() }}{% endmacro %}{{ a() }}", b"{{ ''.__class__.__mro__ }}", b"{%"),
        *(b"{{" * 9000, b"{% if x %}" * 2000, b"{{ " + b"(" * 9000),
    )
    return _chat("chat_template.jinja", *bad, most_ms=1000 * LOAD_S)


MODEL_READERS: dict[str, Callable[[], Reader]] = {
    "model's config": configs,
    "model's weights": weights,
    "model's index": indices,
    "tokenizer": tokenizers,
    "tokenizer's settings": tokenizer_settings,
    "chat template": templates,
}
