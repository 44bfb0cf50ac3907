"""Checks what a run needs besides its run file, from packages and models to keys and devices."""

import os
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path

from msgspec.structs import replace

from coevolve import loop
from coevolve.base.dependencies import extra, lacking, refuse, require
from coevolve.base.in_thread import run_to_end
from coevolve.engine.vllm.environment import require_vllm
from coevolve.environments.initial_model import make_model
from coevolve.environments.packages import install as install_packages
from coevolve.environments.registry import environment_of
from coevolve.estimate.estimate import parameters
from coevolve.followers.packages import check_tracker
from coevolve.launcher.address import with_address
from coevolve.launcher.devices import missing_devices
from coevolve.launcher.working_folder import refuse_left_out
from coevolve.learning.rates import excesses
from coevolve.llm.keys import check_key, key_of, variable_of
from coevolve.llm.proxies import check_proxy
from coevolve.models.architecture import KNOWN, architecture
from coevolve.models.model_folder import TINY, check_model, local_folder, model_config
from coevolve.models.scratch_folder import scratch_folder
from coevolve.models.tiny_random.resolve import running
from coevolve.runs.copies.copy_folder import check_place
from protocols.config import RunConfig, TransformersEngine, VllmEngine
from protocols.errors import ConfigError, DependencyError
from protocols.synthesizers import EndpointModel

NEEDED = ("torch", "transformers")

MAY_BE_MISSING = "synthesizer.may_be_missing"

SOCKET_BYTES = 107
"""Maximum bytes of the path of a Unix socket."""

SOCKET = "/cvray-12345678/r/session_YYYY-mm-dd_HH-MM-SS_ffffff_1234567/sockets/plasma_store"
"""The longest path of a socket of Ray in the folder for temporary files."""


def check(config: RunConfig) -> None:
    """Check that a policy can be evaluated, which needs only the policy and simulators.

    Installs the environment's own packages if they are missing.

    Raises:
        ConfigError: Something that the run file names does not exist or does not fit.
        DependencyError: Something is missing; the message lists everything that is missing.
    """
    install(config)
    refuse(_missing_attempts(config))


def check_made(config: RunConfig, run_dir: Path) -> None:
    """Check that the tiny random model which a run made in ``run_dir`` can hold its conversations.

    Raises ConfigError.
    """
    if config.policy.tiny_random:
        made = running(config, run_dir)
        environment_of(replace(made, policy=replace(made.policy, tiny_random=False))).check()


def install(config: RunConfig) -> None:
    """Install the missing packages of the run's environment; print a line for each to stderr.

    Raises DependencyError if one cannot be installed.
    """
    environment = environment_of(config)
    install_packages(environment.requires, environment.name, _say)


def _say(line: str) -> None:
    sys.stderr.write(f"coevolve: {line}\n")
    sys.stderr.flush()


def refuse_missing(config: RunConfig) -> None:
    """Refuse a run that this machine cannot start.

    Raises:
        ConfigError: Something that the run file names does not exist or does not fit.
        DependencyError: Something is missing; the message lists everything that is missing.
    """
    refuse(missing(with_address(config)))


def refuse_useless_models(config: RunConfig) -> None:
    """Refuse a new run whose endpoints for making and reading tasks do not answer an example.

    If the run file says that they may be missing, print why they are. Raises DependencyError.
    """
    faults = run_to_end(environment_of(config).check_models())
    if not config.synthesizer.may_be_missing:
        refuse([f"{each}; or start without it: {MAY_BE_MISSING}=true" for each in faults])
    for each in faults:
        _say(f"{each}; the run starts ({MAY_BE_MISSING}), and no task is made until it answers")


def rehearse(config: RunConfig) -> None:
    """Make the model of a run that makes its own, and read it as a start does, in a spare folder.

    A start does this itself; a check that it would do. Raises CoevolveError.
    """
    with scratch_folder() as spare:
        make_model(config, spare.path)
        check_made(config, spare.path)
        slow_modules(running(config, spare.path))


def slow_modules(config: RunConfig) -> tuple[str, ...]:
    """Return what takes the parts of a run longest to import, in a process that has no device."""
    kind = str(model_config(config.policy).get("model_type", "")).replace("-", "_")
    heavy = ["coevolve.learning.learner", f"transformers.models.{kind}.modeling_{kind}"]
    if isinstance(config.rollout.engine, TransformersEngine):
        heavy.append("coevolve.engine.generator")
    return (loop.__name__, *heavy)


def missing(config: RunConfig) -> list[str]:
    """Return one sentence, with its remedy, for each thing that a run lacks on this machine.

    Raises ConfigError if something that the run file names does not exist or does not fit.
    """
    found = _missing_attempts(config)
    refuse_left_out(config)
    refuse_rates(config)
    checks: list[Callable[[], object]] = [
        partial(check_key, model, f"{setting}.key_variable")
        for setting, model in _endpoints(config).items()
    ]
    checks += [partial(check_proxy, model.base_url) for model in _endpoints(config).values()]
    checks += [] if config.cluster.address else [_check_sockets]
    checks += [partial(check_tracker, name) for name in config.trackers.use]
    if config.prometheus.port:
        checks.append(partial(require, "prometheus_client", "prometheus.port", extra("prometheus")))
    if config.store.copies:
        checks.append(partial(check_place, config.store.copies, config.name))
    if lacking(partial(require, "torch", "", "")):
        return found + lacking(*checks)
    return found + lacking(*checks) + missing_devices(_as_run(config))


def refuse_rates(config: RunConfig) -> None:
    """Refuse learning rates that are far too high for the size of a pretrained model.

    A model of an unknown size is refused elsewhere. Raises ConfigError.
    """
    policy = config.policy
    is_known = local_folder(policy.model) is not None or policy.model in KNOWN
    is_made = policy.model == TINY or policy.model in environment_of(config).own_models
    if policy.tiny_random or is_made or not is_known:
        return
    weights = parameters(policy, architecture(model_config(policy)))
    if weights and (found := excesses(config.learner, weights, policy.train)):
        raise ConfigError("\n".join(found))


def keys(config: RunConfig) -> dict[str, str]:
    """Return the keys of the endpoints that the run calls, by variable, as far as they are set."""
    endpoints = _endpoints(config).values()
    return {variable_of(each): key for each in endpoints if (key := key_of(each))}


def comment_lines(missing: list[str]) -> str:
    """Return the missing things as YAML comments."""
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


def _check_sockets() -> None:
    """Refuse a folder for temporary files whose path is too long for the sockets of a local Ray."""
    variable = "RAY_TMPDIR" if "RAY_TMPDIR" in os.environ else "TMPDIR"
    folder = os.environ.get(variable, "")
    most = SOCKET_BYTES - len(SOCKET)
    if (size := len(os.fsencode(folder))) > most:
        raise DependencyError(
            f"{variable}: Ray's sockets need a folder whose path has at most {most} bytes, found "
            f"{size} in {folder!r}; start the run with a shorter one, such as {variable}=/tmp"
        )


def _endpoints(config: RunConfig) -> dict[str, EndpointModel]:
    """Return the endpoints that the run's processes call, by setting."""
    model = config.synthesizer.model
    own = {"synthesizer.model": model} if isinstance(model, EndpointModel) else {}
    return (own if config.synthesizes else {}) | dict(environment_of(config).endpoints())
