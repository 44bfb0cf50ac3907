"""Checks what a run needs besides its run file, whether it has a cluster or a single process.

These are packages, models, rates, and endpoints with their keys. `coevolve.launcher.preflight` adds
what a cluster needs.
"""

import shutil
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path

from msgspec.structs import replace

from coevolve.base.dependencies import lacking, refuse, require
from coevolve.base.in_thread import run_to_end
from coevolve.engine.vllm.environment import require_vllm
from coevolve.environments.packages import install as install_packages
from coevolve.environments.registry import environment_of
from coevolve.estimate.estimate import estimate, parameters
from coevolve.learning.rates import excesses
from coevolve.llm.keys import check_key, key_of, variable_of
from coevolve.llm.proxies import check_proxy
from coevolve.models.architecture import KNOWN, architecture
from coevolve.models.model_folder import TINY, check_model, local_folder, model_config
from coevolve.models.tiny_random.resolve import running
from protocols.config import RunConfig, VllmEngine
from protocols.errors import ConfigError, DependencyError
from protocols.synthesizers import EndpointModel

NEEDED = ("torch", "transformers")

MAY_BE_MISSING = "synthesizer.may_be_missing"


def check(config: RunConfig) -> None:
    """Check that a policy can be evaluated, which needs only the policy and simulators.

    Installs the environment's own packages if they are missing.

    Raises:
        ConfigError: Something that the run file names does not exist or does not fit.
        DependencyError: Something is missing; the message lists everything that is missing.
    """
    install(config)
    refuse(missing_attempts(config))


def check_run(config: RunConfig, folder: Path) -> None:
    """Check that a new run in ``folder`` can start in one process on this machine.

    Installs the environment's own packages if they are missing.

    Raises:
        ConfigError: Something that the run file names does not exist or does not fit.
        DependencyError: Something is missing; the message lists everything that is missing.
    """
    install(config)
    found = missing_attempts(config)
    refuse_rates(config)
    refuse(found + lacking(*endpoint_checks(config), partial(_check_gpu, as_run(config))))
    refuse_full_disk(config, folder)
    refuse_useless_models(config)


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
    install_packages(environment.requires, environment.name, say)
    environment.install(say)


def refuse_useless_models(config: RunConfig) -> None:
    """Refuse a new run whose endpoints for making and reading tasks do not answer an example.

    If the run file says that they may be missing, print why they are. Raises DependencyError.
    """
    faults = run_to_end(environment_of(config).check_models())
    if not config.synthesizer.may_be_missing:
        refuse([f"{each}; or start without it: {MAY_BE_MISSING}=true" for each in faults])
    for each in faults:
        say(f"{each}; the run starts ({MAY_BE_MISSING}), and no task is made until it answers")


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


def free_disk(folder: Path) -> int:
    """Return the free bytes of the disk on which the folder is, or will be."""
    there = next(each for each in (folder, *folder.absolute().parents) if each.exists())
    return shutil.disk_usage(there).free


def refuse_full_disk(config: RunConfig, folder: Path) -> None:
    """Refuse a new run whose first version and checkpoint do not fit the disk of its ``folder``.

    Raises DependencyError.
    """
    if config.policy.tiny_random:  # as small as the quickstart's
        return
    environment = environment_of(config)
    imitates, own = environment.imitates_others, environment.own_models
    disk = estimate(as_run(config), imitates_others=imitates, own=own).disk
    needed, free = (disk.version or 0) + (disk.checkpoint or 0), free_disk(folder)
    if free < needed:
        raise DependencyError(
            f"{folder}: needs {needed / 1e6:.1f} MB of free disk for a policy version and a "
            f"checkpoint, found {free / 1e6:.1f} MB; free space, or name a folder with --runs"
        )


def keys(config: RunConfig) -> dict[str, str]:
    """Return the keys of the endpoints that the run calls, by variable, as far as they are set."""
    endpoints = _endpoints(config).values()
    return {variable_of(each): key for each in endpoints if (key := key_of(each))}


def endpoint_checks(config: RunConfig) -> list[Callable[[], object]]:
    """Return checks of the keys and proxies of the run's endpoints; they raise DependencyError."""
    endpoints = _endpoints(config)
    keys = [partial(check_key, each, f"{name}.key_variable") for name, each in endpoints.items()]
    return [*keys, *(partial(check_proxy, each.base_url) for each in endpoints.values())]


def missing_attempts(config: RunConfig) -> list[str]:
    """Return one sentence for each thing that is missing to attempt tasks."""
    engine = as_run(config).rollout.engine
    environment = environment_of(config)
    packages = [
        partial(require, package, "the run", f"pip install {package}") for package in NEEDED
    ]
    served = [partial(require_vllm, engine)] if isinstance(engine, VllmEngine) else []
    model = partial(check_model, config.policy, environment.own_models)
    found = lacking(*packages, *served, model)
    return list(dict.fromkeys((*found, *environment.check())))


def as_run(config: RunConfig) -> RunConfig:
    """Return the settings with the device and engine of the run: tiny random models need no GPU."""
    return running(config, Path(config.name))


def say(line: str) -> None:
    """Print a line to stderr."""
    sys.stderr.write(f"coevolve: {line}\n")
    sys.stderr.flush()


def _check_gpu(config: RunConfig) -> None:
    import torch

    if config.policy.device == "cuda" and not torch.cuda.is_available():
        raise DependencyError(
            "policy.device: cuda needs a GPU, found none on this machine; train on a machine with "
            "one, or set policy.device=cpu"
        )


def _endpoints(config: RunConfig) -> dict[str, EndpointModel]:
    """Return the endpoints that the run's processes call, by setting."""
    model = config.synthesizer.model
    own = {"synthesizer.model": model} if isinstance(model, EndpointModel) else {}
    return (own if config.synthesizes else {}) | dict(environment_of(config).endpoints())
