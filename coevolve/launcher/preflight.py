"""What a run needs besides its run file: packages, programs, models, keys and devices."""

import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path

from coevolve.dependencies import lacking, refuse, require
from coevolve.engine.vllm.environment import require_vllm
from coevolve.environments.packages import install as install_packages
from coevolve.environments.registry import environment_of
from coevolve.launcher.devices import check_devices
from coevolve.llm.keys import check_key
from coevolve.models.model_folder import check_model
from coevolve.models.tiny_random.resolve import running
from protocols.config import RunConfig, VllmEngine
from protocols.synthesizers import EndpointModel

NEEDED = ("torch", "transformers")


def check(config: RunConfig) -> None:
    """Make sure that a policy can be evaluated: nobody but the policy and simulators is needed.

    Installs the environment's own packages if they are missing.

    Raises:
        ConfigError: The run file is wrong about something that it names.
        DependencyError: Something is missing; the message lists all that is.
    """
    install(config)
    refuse(_missing_attempts(config))


def install(config: RunConfig) -> None:
    """Install the packages of the run's environment, with a line on standard error for each.

    Does nothing where they are there already. Raises DependencyError if one cannot be installed.
    """
    environment = environment_of(config)
    install_packages(environment.requires, environment.name, _say)


def _say(line: str) -> None:
    sys.stderr.write(f"coevolve: {line}\n")
    sys.stderr.flush()


def missing(config: RunConfig) -> list[str]:
    """Return what a run lacks here, each thing a sentence with its remedy.

    Raises ConfigError where the run file is wrong about something that it names.
    """
    found = _missing_attempts(config)
    checks: list[Callable[[], object]] = [
        partial(check_key, model, f"{setting}.key_variable")
        for setting, model in _endpoints(config).items()
    ]
    if lacking(partial(require, "torch", "", "")):
        return found + lacking(*checks)
    return found + lacking(*checks, partial(check_devices, _as_run(config)))


def comment_lines(missing: list[str]) -> str:
    """Return what is missing as comments of a YAML file."""
    return "".join(f"# missing: {' '.join(each.split())}\n" for each in missing)


def _missing_attempts(config: RunConfig) -> list[str]:
    engine = _as_run(config).rollout.engine
    environment = environment_of(config)
    packages = [
        partial(require, package, "the run", f"pip install {package}") for package in NEEDED
    ]
    served = [partial(require_vllm, engine)] if isinstance(engine, VllmEngine) else []
    model = partial(check_model, config.policy, environment.own_models)
    found = lacking(*packages, *served, model)
    return list(dict.fromkeys((*found, *environment.check())))


def _as_run(config: RunConfig) -> RunConfig:
    """Return the settings with the device and engine of the run: tiny random models need no GPU."""
    return running(config, Path(config.name))


def _endpoints(config: RunConfig) -> dict[str, EndpointModel]:
    """Return the endpoints that processes of the run ask, by their settings.

    None for another machine's processes: each has its own environment, and refuses by itself.
    """
    if config.cluster.address:
        return {}
    model = config.synthesizer.model
    own = {"synthesizer.model": model} if isinstance(model, EndpointModel) else {}
    return (own if config.synthesizes else {}) | dict(environment_of(config).endpoints())
