"""Access to the section ``environment`` of a run's configuration."""

import msgspec

from coevolve.environments.hdl.config import HdlConfig
from coevolve.environments.sdk import section, settings_of
from protocols.config import RunConfig


def hdl_settings(config: RunConfig) -> HdlConfig:
    """Return the section ``environment`` of a run on designs. Raises ConfigError."""
    return settings_of(config, HdlConfig)


def with_hdl(config: RunConfig, settings: HdlConfig) -> RunConfig:
    """Return the run's configuration with other settings of the environment."""
    return msgspec.structs.replace(config, environment=section("hdl", settings))
