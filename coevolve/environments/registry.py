"""Finds an environment by the name that a run file gives it."""

import contextlib
import importlib.util
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, cast

import msgspec

from coevolve.base.foreign import shown
from coevolve.base.user_code import NamedClass
from coevolve.environments.settings import section
from coevolve.yaml.structs import check_section
from coevolve.yaml.value_remedies import found
from protocols.config import RunConfig
from protocols.errors import ConfigError

if TYPE_CHECKING:
    from coevolve.environments.interface import Environment

NAMED = NamedClass("environment.use", "an environment", group="coevolve.environments")

BUILT_IN = {
    "filesystem": "coevolve.environments.tools.filesystem.environment:Filesystem",
    "bfcl": "coevolve.environments.tools.bfcl.environment:Bfcl",
    "toolbox": "coevolve.environments.tools.toolbox.environment:ToolboxEnvironment",
    "hdl": "coevolve.environments.hdl.environment:Hdl",
    "appworld": "coevolve.environments.appworld.environment:AppWorld",
    "program": "coevolve.environments.program.environment:ProgramEnvironment",
}

DEFAULT = next(iter(BUILT_IN))
"""Environment of run files that name none."""


def names() -> tuple[str, ...]:
    """Return the names of the built-in environments and of those that installed packages offer."""
    return (*BUILT_IN, *NAMED.offered())


def config_types() -> Mapping[str, type[msgspec.Struct]]:
    """Return the settings of each built-in environment, and of a plain class of your own."""
    from coevolve.environments.tools.own import OwnConfig

    own = {"package.module:Class": OwnConfig}
    return {use: environment_type(use).config_type for use in BUILT_IN} | own


def environment_type(use: str) -> "type[Environment]":
    """Return the class that ``use`` names. Raises ConfigError."""
    use = use or DEFAULT
    found = NAMED.load(use, BUILT_IN.get(use) or NAMED.path_of(use, BUILT_IN))
    if hasattr(found, "config_type") or hasattr(found, "agents"):
        _check_members(found, use)
        return cast("type[Environment]", found)
    from coevolve.environments.tools.own import own_environment

    return own_environment(found, use)


def environment_of(config: RunConfig) -> "Environment":
    """Return the environment of a run. Raises ConfigError."""
    return environment_type(config.uses)(config)


def environment_to_read(config: RunConfig) -> "Environment":
    """Return the environment of a run that is only looked at.

    If its class cannot be found, which is usual without ``--code``, another stands in for it that
    shows less. Raises ConfigError.
    """
    module, colon, _ = config.uses.partition(":")
    if colon and not _is_found(module):
        from coevolve.environments.unimported import Unimported

        return Unimported(config)
    return environment_of(config)


def _is_found(module: str) -> bool:
    """Return whether there is such a module; its packages are imported, but not the module."""
    with contextlib.suppress(ImportError, ValueError):
        return importlib.util.find_spec(module) is not None
    return False


def check_environment(given: Any, faults: list[str]) -> None:
    """Append to ``faults`` what is wrong with the section of the environment."""
    if not isinstance(given, Mapping):
        use = given if isinstance(given, str) else DEFAULT
        faults.append(
            f"$.environment: needs a section of settings, found {found(given)}; write "
            f"{{use: {use}}}"
        )
        return
    settings = dict(cast("Mapping[str, Any]", given))
    use = settings.pop("use", DEFAULT)
    if not isinstance(use, str):
        faults.append(f"$.environment.use: needs a name, found {shown(use)}")
        return
    mine: list[str] = []
    try:
        check_section(environment_type(use).config_type, settings, "$.environment", mine)
    except ConfigError as error:
        mine.append(f"$.{error}")
    stranger = "unknown field"
    faults += [f"{each} (environment {use})" if stranger in each else each for each in mine]


def complete(config: RunConfig) -> RunConfig:
    """Return the config with all defaults of its environment's settings filled in."""
    given = {name: value for name, value in config.environment.items() if name != "use"}
    settings = msgspec.convert(given, environment_type(config.uses).config_type)
    return msgspec.structs.replace(config, environment=section(config.uses or DEFAULT, settings))


def config_of(environment: Mapping[str, Any]) -> RunConfig:
    """Return the config of a run in ``environment``, with defaults for everything else.

    Raises ConfigError; the message lists all faults of the section.
    """
    faults: list[str] = []
    check_environment(environment, faults)
    if faults:
        raise ConfigError("\n".join(faults))
    return complete(RunConfig(name="environment", environment=dict(environment)))


def environment_named(use: str, **settings: Any) -> "Environment":
    """Return an environment with these settings, outside any run. Raises ConfigError."""
    return environment_of(config_of({"use": use} | settings))


def _check_members(found: type[Any], use: str) -> None:
    """Refuse a class that is only a part of an environment. Raises ConfigError."""
    from coevolve.environments.interface import Environment

    members = (*Environment.__annotations__, *vars(Environment))
    abstract = getattr(found, "__abstractmethods__", ())
    needed = (each for each in members if each[0] != "_")
    lacking = [each for each in needed if each in abstract or not hasattr(found, each)]
    if lacking:
        raise ConfigError(
            f"environment.use: {use} is no set of tools, and needs what an environment has "
            f"(coevolve/environments/interface.py), found no {', '.join(lacking)}; a subclass of "
            "coevolve.environments.interface.Environment has most of it"
        )
