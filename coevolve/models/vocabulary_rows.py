"""Checks that a model's tokenizer, embedding and output head have the same tokens.

It reads the heads of the files. Only where a model with one matrix for both has two in its files,
it reads the two, to see whether they are the same.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, cast

from safetensors import safe_open

from coevolve.base.foreign import boundary, bytes_of, open_plain, plain
from coevolve.models.model_files import DOWNLOAD_AGAIN, MOST_BYTES, read_settings, shapes_of
from coevolve.models.tokenizer_file import TOKENIZER, read_tokenizer, reading_tokenizer
from protocols.errors import ConfigError

_EMBEDDINGS = (
    *("embed_tokens.weight", "wte.weight", "word_embeddings.weight", "embed_in.weight"),
    "tok_embeddings.weight",
)
_HEADS = ("lm_head.weight", "embed_out.weight")
_BASIC = ("bos_token", "eos_token", "pad_token", "unk_token")
_ROWS = 4096
"""Rows that are compared at once."""


def check_rows(folder: Path) -> None:
    """Raise ConfigError unless each token has a row in the embedding and in the head."""
    files = {
        name: (file, shape)
        for file in sorted(folder.glob("*.safetensors"))
        for name, shape in shapes_of(file).items()
    }
    embedding, head = _named(files, _EMBEDDINGS), _named(files, _HEADS)
    rows = {name: files[name][1][0] for name in (embedding, head) if name and files[name][1]}
    config = read_settings(folder / "config.json")
    size = config.get("vocab_size", _text(config).get("vocab_size"))
    if isinstance(size, int):
        rows["vocab_size in config.json"] = size
    if len({*rows.values()}) > 1:
        found = ", ".join(f"{plain(name)}: {count}" for name, count in rows.items())
        raise ConfigError(
            f"policy.model: {folder} needs as many rows in its embedding and head as config.json "
            f"says, found {found}{DOWNLOAD_AGAIN}"
        )
    tokens = _tokens(folder)
    least = min(rows.values(), default=0)
    if rows and any(number >= least for number in tokens.values()):
        raise ConfigError(
            f"policy.model: {folder} needs a row of its embedding for each token, found "
            f"{max(tokens.values()) + 1} tokens in tokenizer.json and {least} rows in its weights; "
            "call model.resize_token_embeddings(len(tokenizer)) before save_pretrained, or put the "
            "model's own tokenizer there"
        )
    if embedding and head and _is_tied(folder, config):
        _check_same(folder, embedding, files[embedding][0], head, files[head][0])
    if embedding and not _may_be_head(files, embedding) and not _is_tied(folder, config):
        raise ConfigError(
            f"policy.model: {folder} needs a head, because tie_word_embeddings is false in its "
            f"config.json, found no {_HEADS[0]} in its weights; set tie_word_embeddings to true "
            "there if the embedding is the head, or save the model again with its head"
        )


def _named(files: Mapping[str, Any], endings: tuple[str, ...]) -> str:
    """Return the shortest name with one of these endings; empty if there is none."""
    return min((name for name in files if name.endswith(endings)), key=len, default="")


def _may_be_head(files: Mapping[str, Any], embedding: str) -> bool:
    """Return whether a tensor can be the head: by its name, or by its rows."""
    rows = files[embedding][1][:1]
    return any(
        name != embedding and ("head" in name or shape[:1] == rows)
        for name, (_, shape) in files.items()
    )


def _text(config: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the settings of the language model in those of a model that also sees images."""
    found = config.get("text_config")
    return cast("Mapping[str, Any]", found) if isinstance(found, dict) else {}


def _is_tied(folder: Path, config: Mapping[str, Any]) -> bool:
    said = [each.get("tie_word_embeddings") for each in (config, _text(config))]
    if any(isinstance(each, bool) for each in said):
        return any(said)
    from coevolve.models.load import read_config  # it loads transformers, which knows the default

    return bool(read_config(folder).get_text_config().tie_word_embeddings)


def _tokens(folder: Path) -> dict[str, int]:
    """Return the numbers of the tokens that a run can meet; none without a tokenizer.json.

    A special token that no template writes is left out, such as that of images in Gemma: text from
    outside never becomes one.
    """
    if not (folder / TOKENIZER).is_file():
        return {}
    tokenizer = read_tokenizer(folder)
    with reading_tokenizer(folder):
        added = tokenizer.get_added_tokens_decoder().values()
        special = {token.content for token in added if token.special}
        written = _written(folder)
        vocabulary = tokenizer.get_vocab().items()
        return {text: at for text, at in vocabulary if text not in special or text in written}


def _written(folder: Path) -> str:
    """Return the model's chat templates and the names of its basic tokens."""
    files = (*folder.glob("*.jinja"), *folder.glob("additional_chat_templates/*.jinja"))
    path = folder / "tokenizer_config.json"
    settings: Mapping[str, Any] = read_settings(path) if path.is_file() else {}
    named = [f"{settings.get(name)}" for name in ("chat_template", *_BASIC)]
    return "\n".join([*(bytes_of(file, MOST_BYTES).decode() for file in files), *named])


def _differ(embedding: str, first: Path, head: str, second: Path) -> bool:
    opened = cast("Any", safe_open)
    with opened(first, "pt") as one, opened(second, "pt") as other:
        ours, theirs = one.get_slice(embedding), other.get_slice(head)
        starts = range(0, ours.get_shape()[0], _ROWS)
        return ours.get_shape() != theirs.get_shape() or not all(
            (ours[at : at + _ROWS] == theirs[at : at + _ROWS]).all() for at in starts
        )


def _check_same(folder: Path, embedding: str, first: Path, head: str, second: Path) -> None:
    """Refuse two matrices with other values where config.json says that they are one."""
    what = f"policy.model: {folder} needs tensors in the format safetensors"
    with boundary(ConfigError, what, DOWNLOAD_AGAIN), open_plain(first), open_plain(second):
        differ = _differ(embedding, first, head, second)
    if differ:
        raise ConfigError(
            f"policy.model: {folder} needs weights that agree with its config.json, where "
            f"tie_word_embeddings is true: found {plain(head)} with other values than "
            f"{plain(embedding)}; set tie_word_embeddings to false there, to train both, or "
            f"remove {plain(head)} from the weights"
        )
