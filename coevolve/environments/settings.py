"""The section ``environment`` of a run file: the name of an environment and its own settings."""

from typing import Any, TypeVar

import msgspec

from protocols.config import RunConfig
from protocols.errors import ConfigError

SettingsT = TypeVar("SettingsT", bound=msgspec.Struct)


def settings_of(config: RunConfig, kind: type[SettingsT]) -> SettingsT:
    """Return the environment's settings. Raises ConfigError if they do not match ``kind``."""
    given = {name: value for name, value in config.environment.items() if name != "use"}
    try:
        return msgspec.convert(given, kind)
    except msgspec.ValidationError as error:
        raise ConfigError(f"environment: {error}") from error


def section(use: str, settings: msgspec.Struct | None = None) -> dict[str, Any]:
    """Return the section for the environment ``use``, with every setting written out."""
    spelled: dict[str, Any] = (
        {} if settings is None else msgspec.json.decode(msgspec.json.encode(settings))
    )
    return {"use": use} | spelled
