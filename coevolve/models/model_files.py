"""What the folder of a chat model says without its tokenizer; light enough for any process."""

import json
from pathlib import Path

from protocols.errors import ConfigError


def has_chat_template(folder: Path) -> bool:
    """Return whether the model is one to chat with."""
    if (folder / "chat_template.jinja").is_file():
        return True
    settings = folder / "tokenizer_config.json"
    return settings.is_file() and "chat_template" in json.loads(settings.read_text("utf-8"))


def ends_of_text(folder: Path) -> tuple[int, ...]:
    """Return the tokens that the model's own generation settings end a text by."""
    settings = folder / "generation_config.json"
    if not settings.is_file():
        return ()
    return as_ids(json.loads(settings.read_text("utf-8")).get("eos_token_id"))


def as_ids(found: int | list[int] | None) -> tuple[int, ...]:
    """Return token ids, however many a setting names."""
    if found is None:
        return ()
    return tuple(found) if isinstance(found, list) else (found,)


def unusable(reason: str) -> ConfigError:
    """Return the error for a chat template that a policy cannot be trained with."""
    return ConfigError(
        f"policy.model: its chat template cannot be used: {reason}; give a model whose template "
        "ends assistant messages by a token of its own and leaves the rest alone"
    )
