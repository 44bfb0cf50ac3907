"""Facts about a chat model's folder without loading its tokenizer; imports are light."""

import json
from pathlib import Path

from protocols.errors import ConfigError


def has_chat_template(folder: Path) -> bool:
    """Return whether the model has a chat template."""
    if (folder / "chat_template.jinja").is_file():
        return True
    settings = folder / "tokenizer_config.json"
    return settings.is_file() and "chat_template" in json.loads(settings.read_text("utf-8"))


def ends_of_text(folder: Path) -> tuple[int, ...]:
    """Return the end-of-text tokens of the model's generation settings."""
    settings = folder / "generation_config.json"
    if not settings.is_file():
        return ()
    return as_ids(json.loads(settings.read_text("utf-8")).get("eos_token_id"))


def as_ids(found: int | list[int] | None) -> tuple[int, ...]:
    """Return a setting's token ids as a tuple."""
    if found is None:
        return ()
    return tuple(found) if isinstance(found, list) else (found,)


def unusable(reason: str) -> ConfigError:
    """Return the error for a chat template that cannot be used for training."""
    return ConfigError(
        f"policy.model: its chat template cannot be used: {reason}; choose a model whose template "
        "ends assistant messages with a special token and leaves the rest unchanged"
    )
